//! Specifications of layouts: what the tests generate, and then build with the crate, with the oracle, and with MPI.

use std::fmt::Write;

use aqueduct_file::hyperslab::Hyperslab;
use aqueduct_file::layout::{Basic, Distributed, Distribution, Layout, Member, Order, Result, Vector};
use proptest::collection::vec;
use proptest::prelude::*;

/// A layout to be built; the arguments are those of the constructors.
#[derive(Clone, Debug)]
pub(crate) enum Spec {
    Basic(Basic),
    Contiguous(u64, Box<Spec>),
    Vector(Vector, Box<Spec>),
    Hvector(Vector, Box<Spec>),
    Indexed(Vec<(u64, i64)>, Box<Spec>),
    Hindexed(Vec<(u64, i64)>, Box<Spec>),
    IndexedBlock(u64, Vec<i64>, Box<Spec>),
    HindexedBlock(u64, Vec<i64>, Box<Spec>),
    Structure(Vec<(u64, i64, Spec)>),
    Subarray(Vec<u64>, Hyperslab, Order, Box<Spec>),
    Darray(u64, Vec<Distributed>, Order, Box<Spec>),
    Resized(i64, i64, Box<Spec>),
    Dup(Box<Spec>),
}

impl Spec {
    pub(crate) fn layout(&self) -> Result<Layout> {
        match self {
            Self::Basic(basic) => Ok(Layout::from(*basic)),
            Self::Contiguous(count, old) => old.layout()?.contiguous(*count),
            Self::Vector(vector, old) => old.layout()?.vector(*vector),
            Self::Hvector(vector, old) => old.layout()?.hvector(*vector),
            Self::Indexed(blocks, old) => old.layout()?.indexed(blocks.iter().copied()),
            Self::Hindexed(blocks, old) => old.layout()?.hindexed(blocks.iter().copied()),
            Self::IndexedBlock(length, at, old) => old.layout()?.indexed_block(*length, at.iter().copied()),
            Self::HindexedBlock(length, at, old) => old.layout()?.hindexed_block(*length, at.iter().copied()),
            Self::Structure(members) => {
                let member = |&(count, displacement, ref spec): &(u64, i64, Spec)| {
                    Ok(Member { count, displacement, layout: spec.layout()? })
                };
                Layout::structure(members.iter().map(member).collect::<Result<Vec<_>>>()?)
            }
            Self::Subarray(shape, part, order, old) => old.layout()?.subarray(shape, part, *order),
            Self::Darray(rank, dimensions, order, old) => old.layout()?.darray(*rank, dimensions, *order),
            Self::Resized(lower, extent, old) => old.layout()?.resized(*lower, *extent),
            Self::Dup(old) => Ok(old.layout()?.dup()),
        }
    }

    /// The specification in words, arguments first, for the program that builds it with MPI.
    pub(crate) fn words(&self, out: &mut String) {
        let pairs = |blocks: &[(u64, i64)]| {
            blocks.iter().fold(blocks.len().to_string(), |text, (n, at)| format!("{text} {n} {at}"))
        };
        let list =
            |places: &[i64]| places.iter().fold(places.len().to_string(), |text, at| format!("{text} {at}"));
        let word = match self {
            Self::Basic(basic) => format!("basic {basic}"),
            Self::Contiguous(count, _) => format!("contiguous {count}"),
            Self::Vector(v, _) => format!("vector {} {} {}", v.count, v.block, v.stride),
            Self::Hvector(v, _) => format!("hvector {} {} {}", v.count, v.block, v.stride),
            Self::Indexed(blocks, _) => format!("indexed {}", pairs(blocks)),
            Self::Hindexed(blocks, _) => format!("hindexed {}", pairs(blocks)),
            Self::IndexedBlock(length, at, _) => format!("indexed_block {length} {}", list(at)),
            Self::HindexedBlock(length, at, _) => format!("hindexed_block {length} {}", list(at)),
            Self::Structure(members) => {
                let blocks: Vec<_> = members.iter().map(|&(count, at, _)| (count, at)).collect();
                format!("struct {}", pairs(&blocks))
            }
            Self::Subarray(shape, part, order, _) => {
                let text = format!("subarray {order:?} {}", shape.len());
                let sides = shape.iter().zip(&part.count).zip(&part.start);
                sides.fold(text, |text, ((size, count), start)| format!("{text} {size} {count} {start}"))
            }
            Self::Darray(rank, dimensions, order, _) => {
                let text = format!("darray {order:?} {rank} {}", dimensions.len());
                dimensions.iter().fold(text, |text, d| {
                    let (name, argument) = match d.distribution {
                        Distribution::Whole => ("none", 0),
                        Distribution::Block => ("block", 0),
                        Distribution::BlockOf(block) => ("block", block),
                        Distribution::Cyclic => ("cyclic", 0),
                        Distribution::CyclicOf(block) => ("cyclic", block),
                    };
                    format!("{text} {} {name} {argument} {}", d.size, d.processes)
                })
            }
            Self::Resized(lower, extent, _) => format!("resized {lower} {extent}"),
            Self::Dup(_) => "dup".into(),
        };
        self.children().iter().for_each(|child| child.words(out));
        let _ = write!(out, "{word} ");
    }

    pub(crate) fn children(&self) -> Vec<&Spec> {
        match self {
            Self::Basic(_) => vec![],
            Self::Structure(members) => members.iter().map(|(_, _, spec)| spec).collect(),
            Self::Contiguous(_, old)
            | Self::Vector(_, old)
            | Self::Hvector(_, old)
            | Self::Indexed(_, old)
            | Self::Hindexed(_, old)
            | Self::IndexedBlock(_, _, old)
            | Self::HindexedBlock(_, _, old)
            | Self::Subarray(_, _, _, old)
            | Self::Darray(_, _, _, old)
            | Self::Resized(_, _, old)
            | Self::Dup(old) => vec![old],
        }
    }
}

/// Random specifications: up to four levels, displacements of both signs that are multiples of `unit`.
pub(crate) fn specs(unit: i64) -> impl Strategy<Value = Spec> {
    let basic = prop::sample::select(vec![
        Basic::Byte,
        Basic::I16,
        Basic::I32,
        Basic::F64,
        Basic::Long,
        Basic::WideChar,
        Basic::ComplexF64,
    ]);
    basic.prop_map(Spec::Basic).prop_recursive(4, 24, 3, move |old| grown(old, unit))
}

/// Random specifications as file types have them: places in ascending order, gaps, no negative displacement; not all come out monotone.
pub(crate) fn file_specs() -> impl Strategy<Value = Spec> {
    let basic = prop::sample::select(vec![Basic::Byte, Basic::I32, Basic::F64]);
    basic.prop_map(Spec::Basic).prop_recursive(3, 12, 2, |old| {
        let old = old.prop_map(Box::new).boxed();
        let blocks = vec((0..3_u64, 0..3_i64), 1..4).prop_map(|blocks| {
            let mut end = 0;
            let place = |(n, gap): (u64, i64)| {
                let at = end + gap;
                end = at + n as i64;
                (n, at)
            };
            blocks.into_iter().map(place).collect::<Vec<_>>()
        });
        let vector = (1..4_u64, 1..3_u64, 0..3_i64).prop_map(|(count, block, gap)| Vector {
            count,
            block,
            stride: block as i64 + gap,
        });
        prop_oneof![
            (0..4_u64, old.clone()).prop_map(|(n, old)| Spec::Contiguous(n, old)),
            (vector, old.clone()).prop_map(|(v, old)| Spec::Vector(v, old)),
            (blocks, old.clone()).prop_map(|(blocks, old)| Spec::Indexed(blocks, old)),
            array_part(old.clone()),
            (80..200_i64, old).prop_map(|(extent, old)| Spec::Resized(0, extent, old)),
        ]
    })
}

fn grown(old: impl Strategy<Value = Spec> + Clone + 'static, unit: i64) -> impl Strategy<Value = Spec> {
    let member = (0..3_u64, bytes(unit), old.clone());
    let old = old.prop_map(Box::new).boxed();
    let vector = (0..4_u64, 0..3_u64, -3..6_i64);
    let vector = vector.prop_map(|(count, block, stride)| Vector { count, block, stride });
    let hvector = (0..4_u64, 0..3_u64, bytes(unit));
    let hvector = hvector.prop_map(|(count, block, stride)| Vector { count, block, stride });
    prop_oneof![
        (0..4_u64, old.clone()).prop_map(|(n, old)| Spec::Contiguous(n, old)),
        (vector, old.clone()).prop_map(|(v, old)| Spec::Vector(v, old)),
        (hvector, old.clone()).prop_map(|(v, old)| Spec::Hvector(v, old)),
        (vec((0..3_u64, -2..8_i64), 0..4), old.clone()).prop_map(|(b, old)| Spec::Indexed(b, old)),
        (vec((0..3_u64, bytes(unit)), 0..4), old.clone()).prop_map(|(b, old)| Spec::Hindexed(b, old)),
        (0..3_u64, vec(-2..8_i64, 0..4), old.clone()).prop_map(|(n, at, old)| Spec::IndexedBlock(n, at, old)),
        (0..3_u64, vec(bytes(unit), 0..4), old.clone())
            .prop_map(|(n, at, old)| Spec::HindexedBlock(n, at, old)),
        vec(member, 0..4).prop_map(Spec::Structure),
        array_part(old.clone()),
        (bytes(unit), 0..12_i64, old.clone()).prop_map(move |(at, n, old)| Spec::Resized(at, n * unit, old)),
        old.prop_map(Spec::Dup),
    ]
}

fn bytes(unit: i64) -> impl Strategy<Value = i64> + Clone {
    (-4..9_i64).prop_map(move |n| n * unit)
}

fn array_part(old: BoxedStrategy<Box<Spec>>) -> impl Strategy<Value = Spec> {
    let order = || prop::sample::select(vec![Order::C, Order::Fortran]);
    let dimension = (1..5_u64, any::<[u64; 2]>()).prop_map(|(size, [a, b])| {
        let subsize = 1 + a % size;
        (size, (b % (size - subsize + 1), subsize))
    });
    let distributed = (1..7_u64, 1..4_u64, 0..5_u8, 1..4_u64).prop_map(|(size, processes, kind, block)| {
        let least = size.div_ceil(processes);
        let (distribution, processes) = match kind {
            0 => (Distribution::Whole, 1),
            1 => (Distribution::Block, processes),
            2 => (Distribution::BlockOf(least + block - 1), processes),
            3 => (Distribution::Cyclic, processes),
            _ => (Distribution::CyclicOf(block), processes),
        };
        Distributed { size, distribution, processes }
    });
    let darray =
        (any::<u64>(), vec(distributed, 1..3), order(), old.clone()).prop_map(|(rank, all, order, old)| {
            let processes: u64 = all.iter().map(|d| d.processes).product();
            Spec::Darray(rank % processes, all, order, old)
        });
    prop_oneof![
        (vec(dimension, 1..4), order(), old).prop_map(|(all, order, old)| {
            let (shape, sides): (Vec<u64>, Vec<(u64, u64)>) = all.into_iter().unzip();
            let (start, count): (Vec<u64>, Vec<u64>) = sides.into_iter().unzip();
            Spec::Subarray(shape, Hyperslab::new(start, count), order, old)
        }),
        darray,
    ]
}
