//! The typed collective calls of a communicator.

use super::all_to_all_arrays::{ExchangedArray, ExchangedBytes};
use super::reduce_op::{self, Number, Op};
use super::{CollectiveCall, ReduceTarget};
use crate::collective_id::{CollectiveId, CollectiveKind};
use crate::matching::packet::Plain;
use crate::{Comm, Error, Kind, Result};

impl Comm {
    /// Waits until all ranks have called it.
    #[doc(alias = "MPI_Barrier")]
    pub fn barrier(&self) -> Result<()> {
        CollectiveCall::begin(&self.inner, CollectiveId::new(CollectiveKind::Barrier))?.barrier()
    }

    /// Fills `values` of every rank with those of `root`. All ranks give slices of the same length.
    #[doc(alias = "MPI_Bcast")]
    pub fn broadcast<T: Plain>(&self, root: usize, values: &mut [T]) -> Result<()> {
        self.check_or_refuse(self.check_rank(root, "broadcast"))?;
        let call = CollectiveId::new(CollectiveKind::Broadcast).root(root).size(size_of_val(values));
        CollectiveCall::begin(&self.inner, call)?.broadcast(root, bytemuck::cast_slice_mut(values))
    }

    /// `root`'s values at every rank; the values of other ranks and their number are ignored.
    pub fn broadcast_vec<T: Plain>(&self, root: usize, mut values: Vec<T>) -> Result<Vec<T>> {
        let mut len = [values.len() as u64];
        self.broadcast(root, &mut len)?;
        values.resize(len[0] as usize, T::zeroed());
        self.broadcast(root, &mut values)?;
        Ok(values)
    }

    /// The values of all ranks, concatenated, at `root`; none at other ranks. All ranks give the same number of values.
    #[doc(alias = "MPI_Gather")]
    pub fn gather<T: Plain>(&self, root: usize, mine: &[T]) -> Result<Option<Vec<T>>> {
        self.check_or_refuse(self.check_rank(root, "gather"))?;
        let call = CollectiveId::new(CollectiveKind::Gather).root(root).size(size_of_val(mine));
        let all =
            CollectiveCall::begin(&self.inner, call)?.gather_varied(root, bytemuck::cast_slice(mine))?;
        all.map(|items| Ok(typed(items, "gather")?.concat())).transpose()
    }

    /// The values of each rank, of any number, at `root`; none at other ranks.
    #[doc(alias = "MPI_Gatherv")]
    pub fn gather_varied<T: Plain>(&self, root: usize, mine: &[T]) -> Result<Option<Vec<Vec<T>>>> {
        self.check_or_refuse(self.check_rank(root, "gather_varied"))?;
        let call = CollectiveId::new(CollectiveKind::Gather).root(root);
        let all =
            CollectiveCall::begin(&self.inner, call)?.gather_varied(root, bytemuck::cast_slice(mine))?;
        all.map(|items| typed(items, "gather_varied")).transpose()
    }

    /// As [`gather_varied`](Comm::gather_varied), into the buffers `into` of `root`, one for each rank; those of other ranks are ignored.
    /// Returns, at `root`, the number of values of each rank. A buffer of another length is not changed.
    ///
    /// ```
    /// aqueduct_comm::Launch::threads(3).run(|world| {
    ///     let mine = vec![world.rank() as u32; world.rank()];
    ///     let mut window = [9; 4];
    ///     let (one, rest) = window.split_at_mut(1);
    ///     let given = world.gather_into(0, &mine, &mut [&mut [], one, rest])?;
    ///     if world.rank() == 0 {
    ///         assert_eq!((given, window), (vec![0, 1, 2], [1, 9, 9, 9]));
    ///     }
    ///     Ok::<_, aqueduct_comm::Error>(())
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn gather_into<T: Plain>(
        &self,
        root: usize,
        mine: &[T],
        into: &mut [&mut [T]],
    ) -> Result<Vec<usize>> {
        let places = if self.rank() == root { into.len() } else { self.size() };
        let checked = self.check_rank(root, "gather_into").and(self.check_parts(places, "gather_into"));
        self.check_or_refuse(checked)?;
        let mut places: Vec<&mut [u8]> =
            into.iter_mut().map(|place| bytemuck::cast_slice_mut(place)).collect();
        let call =
            CollectiveCall::begin(&self.inner, CollectiveId::new(CollectiveKind::GatherInto).root(root))?;
        let bytes = call.gather_into(root, bytemuck::cast_slice(mine), &mut places)?;
        Ok(bytes.into_iter().map(|bytes| bytes / size_of::<T>().max(1)).collect())
    }

    /// Distributes `root`'s values in equal parts, part `r` to rank `r`. The `values` of other ranks are ignored; the number of values
    /// must be a multiple of the number of ranks.
    #[doc(alias = "MPI_Scatter")]
    pub fn scatter<T: Plain>(&self, root: usize, values: &[T]) -> Result<Vec<T>> {
        self.check_or_refuse(self.check_rank(root, "scatter"))?;
        let parts = if self.rank() == root { self.equal_parts(values, "scatter") } else { Ok(Vec::new()) };
        self.scatter_varied(root, &self.check_or_refuse(parts)?)
    }

    /// Distributes `root`'s parts, of any lengths, part `r` to rank `r`. The `parts` of other ranks are ignored.
    #[doc(alias = "MPI_Scatterv")]
    pub fn scatter_varied<T: Plain, P: AsRef<[T]>>(&self, root: usize, parts: &[P]) -> Result<Vec<T>> {
        self.check_or_refuse(self.check_rank(root, "scatter_varied"))?;
        let mut bytes: Vec<&[u8]> = Vec::new();
        if self.rank() == root {
            self.check_or_refuse(self.check_parts(parts.len(), "scatter_varied"))?;
            bytes = parts.iter().map(|part| bytemuck::cast_slice(part.as_ref())).collect();
        }
        let call = CollectiveId::new(CollectiveKind::Scatter).root(root);
        let mine = CollectiveCall::begin(&self.inner, call)?.scatter_varied(root, &bytes)?;
        typed(vec![mine], "scatter_varied").map(|mut items| items.swap_remove(0))
    }

    /// The values of all ranks, concatenated, at every rank. All ranks give the same number of values.
    #[doc(alias = "MPI_Allgather")]
    pub fn allgather<T: Plain>(&self, mine: &[T]) -> Result<Vec<T>> {
        let mut all = vec![T::zeroed(); mine.len() * self.size()];
        self.allgather_into(mine, &mut all)?;
        Ok(all)
    }

    /// As [`allgather`](Comm::allgather), into a buffer: `out.len()` = ranks × `mine.len()`.
    pub fn allgather_into<T: Plain>(&self, mine: &[T], out: &mut [T]) -> Result<()> {
        self.check_or_refuse(self.check_out(mine.len() * self.size(), out.len(), "allgather_into"))?;
        let call = CollectiveId::new(CollectiveKind::Allgather).size(size_of_val(mine));
        CollectiveCall::begin(&self.inner, call)?
            .allgather_into(bytemuck::cast_slice(mine), bytemuck::cast_slice_mut(out))
    }

    /// The values of each rank, of any number, at every rank.
    #[doc(alias = "MPI_Allgatherv")]
    pub fn allgather_varied<T: Plain>(&self, mine: &[T]) -> Result<Vec<Vec<T>>> {
        let call = CollectiveId::new(CollectiveKind::Allgather);
        let all = CollectiveCall::begin(&self.inner, call)?.allgather_varied(bytemuck::cast_slice(mine))?;
        typed(all, "allgather_varied")
    }

    /// Divides `values` into one equal part per rank and sends part `r` to rank `r`; returns the parts received, in rank order.
    #[doc(alias = "MPI_Alltoall")]
    pub fn all_to_all<T: Plain>(&self, values: &[T]) -> Result<Vec<T>> {
        let mut out = vec![T::zeroed(); values.len()];
        self.all_to_all_into(values, &mut out)?;
        Ok(out)
    }

    /// As [`all_to_all`](Comm::all_to_all), into a buffer of the length of `values`.
    pub fn all_to_all_into<T: Plain>(&self, values: &[T], out: &mut [T]) -> Result<()> {
        self.check_or_refuse(self.check_out(values.len(), out.len(), "all_to_all_into"))?;
        self.check_or_refuse(self.equal_parts(values, "all_to_all"))?;
        let call = CollectiveId::new(CollectiveKind::AllToAll).size(size_of_val(values));
        CollectiveCall::begin(&self.inner, call)?
            .all_to_all_into(bytemuck::cast_slice(values), bytemuck::cast_slice_mut(out))
    }

    /// Sends part `r`, of any length, to rank `r`; returns the parts received, in rank order.
    #[doc(alias = "MPI_Alltoallv")]
    pub fn all_to_all_varied<T: Plain, P: AsRef<[T]>>(&self, parts: &[P]) -> Result<Vec<Vec<T>>> {
        self.check_or_refuse(self.check_parts(parts.len(), "all_to_all_varied"))?;
        let parts: Vec<&[u8]> = parts.iter().map(|part| bytemuck::cast_slice(part.as_ref())).collect();
        let all = CollectiveCall::begin(&self.inner, CollectiveId::new(CollectiveKind::AllToAll))?
            .all_to_all_varied(&parts)?;
        typed(all, "all_to_all_varied")
    }

    /// As [`all_to_all_varied`](Comm::all_to_all_varied), into memory of the caller, for several arrays at once: each has its parts of any
    /// lengths, and the memory for those that it receives. Ranks of one node copy once; a rank of another node gets one message for all
    /// arrays. A part of another length than its receiver expects is an error of the receiver.
    ///
    /// ```
    /// use aqueduct_comm::{ExchangedArray, Launch};
    ///
    /// Launch::threads(3).run(|world| {
    ///     // Rank r sends s + 1 values to rank s.
    ///     let (send, send_counts) = ([world.rank() as u32; 6], [1, 2, 3]);
    ///     let count = world.rank() + 1;
    ///     let mut receive = vec![9; 3 * count];
    ///     world.all_to_all_varied_into(&mut [ExchangedArray {
    ///         send: &send,
    ///         send_counts: &send_counts,
    ///         receive: &mut receive,
    ///         receive_counts: &[count; 3],
    ///     }])?;
    ///     assert_eq!(receive, [vec![0; count], vec![1; count], vec![2; count]].concat());
    ///     Ok::<_, aqueduct_comm::Error>(())
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    #[doc(alias = "MPI_Alltoallv")]
    pub fn all_to_all_varied_into<T: Plain>(&self, arrays: &mut [ExchangedArray<'_, T>]) -> Result<()> {
        self.check_or_refuse(arrays.iter().try_for_each(|array| array.check(self.size())))?;
        let call = CollectiveId::new(CollectiveKind::AllToAllArrays).detail(arrays.len() as u32);
        let mut bytes: Vec<ExchangedBytes<'_>> = arrays.iter_mut().map(ExchangedArray::bytes).collect();
        CollectiveCall::begin(&self.inner, call)?.all_to_all_arrays(&mut bytes)
    }

    /// Sends each part to its rank; returns the parts received, by sender. For sparse exchanges: receivers need not know the senders, and each
    /// node sends ⌈log₂ nodes⌉ messages. Other nodes forward them, so the parts should be small.
    ///
    /// ```
    /// aqueduct_comm::Launch::threads(3).node_ranks(1).run(|world| {
    ///     // All ranks send to rank 1 only.
    ///     let received = world.route(&[(1, vec![world.rank() as u8])])?;
    ///     let all = vec![(0, vec![0]), (1, vec![1]), (2, vec![2])];
    ///     assert_eq!(received, if world.rank() == 1 { all } else { vec![] });
    ///     Ok::<_, aqueduct_comm::Error>(())
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn route(&self, parts: &[(usize, Vec<u8>)]) -> Result<Vec<(usize, Vec<u8>)>> {
        self.check_or_refuse(parts.iter().try_for_each(|(to, _)| self.check_rank(*to, "route")))?;
        CollectiveCall::begin(&self.inner, CollectiveId::new(CollectiveKind::Route))?.route(parts)
    }

    /// Reduces element by element over all ranks; the result at `root`, none at other ranks.
    #[doc(alias = "MPI_Reduce")]
    pub fn reduce<T: Number>(&self, root: usize, op: Op, mine: &[T]) -> Result<Option<Vec<T>>> {
        self.check_or_refuse(self.check_rank(root, "reduce"))?;
        let mut values = mine.to_vec();
        self.begin_reduction::<T>(CollectiveId::new(CollectiveKind::Reduce).root(root), op, mine)?.reduce(
            ReduceTarget::Rank(root),
            op,
            &mut values,
        )?;
        Ok((self.rank() == root).then_some(values))
    }

    /// Reduces element by element over all ranks; the same result, to the bit, at every rank.
    #[doc(alias = "MPI_Allreduce")]
    pub fn allreduce<T: Number>(&self, op: Op, mine: &[T]) -> Result<Vec<T>> {
        let mut values = mine.to_vec();
        self.allreduce_in_place(op, &mut values)?;
        Ok(values)
    }

    /// As [`allreduce`](Comm::allreduce), the result in place of the values.
    pub fn allreduce_in_place<T: Number>(&self, op: Op, values: &mut [T]) -> Result<()> {
        self.begin_reduction::<T>(CollectiveId::new(CollectiveKind::Allreduce), op, values)?.reduce(
            ReduceTarget::All,
            op,
            values,
        )
    }

    /// As [`allreduce`](Comm::allreduce), for one value.
    pub fn allreduce_one<T: Number>(&self, op: Op, mut value: T) -> Result<T> {
        self.allreduce_in_place(op, std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Reduces element by element with `merge`, which must be associative and commutative; the same result at every rank. For reductions of
    /// several kinds in one call.
    ///
    /// ```
    /// aqueduct_comm::Launch::threads(3).run(|world| {
    ///     let mine = [[world.rank() as u64, 1]];
    ///     let merged = world.allreduce_with(&mine, |a, b| *a = [a[0].max(b[0]), a[1] + b[1]])?;
    ///     assert_eq!(merged, [[2, 3]]);
    ///     Ok::<_, aqueduct_comm::Error>(())
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    #[doc(alias = "MPI_Op_create")]
    pub fn allreduce_with<T: Plain>(&self, mine: &[T], merge: impl Fn(&mut T, &T)) -> Result<Vec<T>> {
        let mut values = mine.to_vec();
        let fold = |into: &mut [T], with: &[T]| into.iter_mut().zip(with).for_each(|(a, b)| merge(a, b));
        // Types are distinguished by size; the codes differ from those of the built-in reductions.
        let detail = 1 << 16 | u32::try_from(size_of::<T>()).unwrap_or(u32::MAX);
        let call = CollectiveId::new(CollectiveKind::Allreduce).size(size_of_val(mine)).detail(detail);
        CollectiveCall::begin(&self.inner, call)?.reduce_with(ReduceTarget::All, &fold, &mut values)?;
        Ok(values)
    }

    /// Reduces element by element over ranks 0 to this one.
    #[doc(alias = "MPI_Scan")]
    pub fn scan<T: Number>(&self, op: Op, mine: &[T]) -> Result<Vec<T>> {
        let scan = self.begin_reduction::<T>(CollectiveId::new(CollectiveKind::Scan), op, mine)?;
        Ok(match scan.scan_below(op, mine)? {
            None => mine.to_vec(),
            Some(mut values) => {
                T::fold(op, &mut values, mine);
                values
            }
        })
    }

    /// Reduces element by element over the ranks below this one; none at rank 0.
    #[doc(alias = "MPI_Exscan")]
    pub fn exclusive_scan<T: Number>(&self, op: Op, mine: &[T]) -> Result<Option<Vec<T>>> {
        self.begin_reduction::<T>(CollectiveId::new(CollectiveKind::ExclusiveScan), op, mine)?
            .scan_below(op, mine)
    }

    /// As [`exclusive_scan`](Comm::exclusive_scan), for one value: with [`Op::Sum`] of lengths, the offset of this rank's part.
    pub fn exclusive_scan_one<T: Number>(&self, op: Op, value: T) -> Result<Option<T>> {
        Ok(self.exclusive_scan(op, &[value])?.map(|values| values[0]))
    }

    fn begin_reduction<T: Number>(
        &self,
        call: CollectiveId,
        op: Op,
        values: &[T],
    ) -> Result<CollectiveCall<'_>> {
        self.check_or_refuse(reduce_op::check::<T>(op, call.name()))?;
        CollectiveCall::begin(&self.inner, call.size(size_of_val(values)).detail(op as u32 * 256 + T::CODE))
    }

    /// Informs the other ranks if this rank rejects the arguments of a call.
    pub(crate) fn check_or_refuse<R>(&self, checked: Result<R>) -> Result<R> {
        checked.map_err(|error| CollectiveCall::refuse(&self.inner, error))
    }

    fn equal_parts<'v, T>(&self, values: &'v [T], call: &'static str) -> Result<Vec<&'v [T]>> {
        if !values.len().is_multiple_of(self.size()) {
            let detail =
                format!("{} values cannot be divided into {} equal parts", values.len(), self.size());
            return Err(Error::new(Kind::InvalidArgument, call, detail));
        }
        let len = values.len() / self.size();
        Ok((0..self.size()).map(|rank| &values[rank * len..(rank + 1) * len]).collect())
    }

    fn check_parts(&self, parts: usize, call: &'static str) -> Result<()> {
        if parts == self.size() {
            return Ok(());
        }
        let detail =
            format!("{parts} parts for {} ranks; give one part for each, empty ones too", self.size());
        Err(Error::new(Kind::InvalidArgument, call, detail))
    }

    fn check_out(&self, needed: usize, given: usize, call: &'static str) -> Result<()> {
        if needed == given {
            return Ok(());
        }
        let detail =
            format!("the result has {needed} elements, the buffer of rank {} has {given}", self.rank());
        Err(Error::new(Kind::InvalidArgument, call, detail))
    }
}

fn typed<T: Plain>(items: Vec<Vec<u8>>, call: &'static str) -> Result<Vec<Vec<T>>> {
    items.into_iter().map(|item| crate::matching::packet::PacketBody::new(item).into_values(call)).collect()
}
