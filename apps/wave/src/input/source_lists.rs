//! Lists of points and the values of sources: the part of this rank.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::kwave_file::KwaveFile;
use crate::grid::field_block::FieldBlock;
use crate::problem::{PointSource, SourceMode, TransducerSource};

/// A point of a list on this rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListedPoint {
    pub(super) position: u64,
    pub(super) local: usize,
}

/// The points of a list that are in a block, in the order of the list. Collective.
pub(super) fn points_in_block(
    file: &KwaveFile,
    dataset: &str,
    block: &FieldBlock,
) -> Result<Vec<ListedPoint>> {
    let volume = block.points.iter().product::<usize>() as u64;
    let mut found = Vec::new();
    file.for_each_portion(dataset, |first, numbers| {
        for (number, position) in numbers.iter().zip(first..) {
            ensure!(
                (1..=volume).contains(number),
                "{}: element {position} of dataset {dataset} is {number}; indices are from 1 to {volume}",
                file.name()
            );
            if let Some(local) = block.local(*number as usize - 1) {
                found.push(ListedPoint { position, local });
            }
        }
        Ok(())
    })?;
    Ok(found)
}

/// The sources of one kind of this rank: `kind` is `p` or `u`, `names` are those of the components. Collective.
pub(super) fn point_sources(
    file: &KwaveFile,
    kind: &str,
    names: &[&str],
    steps: u64,
    block: &FieldBlock,
) -> Result<Vec<Option<PointSource>>> {
    let mut lengths = Vec::new();
    for name in names {
        lengths.push(file.long(&format!("{name}_source_flag"))?);
    }
    if lengths.iter().all(|length| *length == 0) {
        return Ok(vec![None; names.len()]);
    }
    let name = file.name();
    let index = format!("{kind}_source_index");
    let total = file.list_length(&index)?;
    let number = file.long(&format!("{kind}_source_mode"))?;
    let Some(mode) = SourceMode::from_number(number) else {
        anyhow::bail!("{name}: {kind}_source_mode is {number}; it should be 0, 1 or 2");
    };
    let many = file.long(&format!("{kind}_source_many"))? != 0;
    // Where several sources have one point, the last one counts.
    let last: BTreeMap<usize, u64> = points_in_block(file, &index, block)?
        .into_iter()
        .map(|point| (point.local, point.position))
        .collect();
    let (points, positions): (Vec<usize>, Vec<u64>) = last.into_iter().unzip();
    let mut sources = Vec::new();
    for (component, length) in names.iter().zip(lengths) {
        if length == 0 {
            sources.push(None);
            continue;
        }
        let acting = length.min(steps);
        let dataset = format!("{component}_source_input");
        let values = if many {
            file.columns(&dataset, [acting, total], &positions)?
        } else {
            file.columns(&dataset, [acting, 1], &[0])?
        };
        sources.push(Some(PointSource { mode, steps: acting, points: points.clone(), many, values }));
    }
    Ok(sources)
}

/// The transducer, if there is one. Collective.
pub(super) fn transducer(file: &KwaveFile, block: &FieldBlock) -> Result<Option<TransducerSource>> {
    let steps = file.long("transducer_source_flag")?;
    if steps == 0 {
        return Ok(None);
    }
    let name = file.name();
    let (count, delays) = (file.list_length("u_source_index")?, file.list_length("delay_mask")?);
    ensure!(
        delays == count,
        "{name}: delay_mask has {delays} elements, u_source_index has {count}; they should be equal"
    );
    let signal = file.floats("transducer_source_input")?;
    let points = points_in_block(file, "u_source_index", block)?;
    let mut mine = Vec::with_capacity(points.len());
    let mut next = points.iter().peekable();
    let longest = (signal.len() as u64).saturating_sub(steps);
    file.for_each_portion("delay_mask", |first, values| {
        while let Some(point) = next.next_if(|point| point.position < first + values.len() as u64) {
            let delay = values[(point.position - first) as usize];
            ensure!(
                delay >= 1 && delay - 1 <= longest,
                "{name}: element {} of delay_mask is {delay}; with {} samples and {steps} steps it should be from 1 to {}",
                point.position,
                signal.len(),
                longest + 1
            );
            mine.push(delay as usize - 1);
        }
        Ok(())
    })?;
    let points = points.into_iter().map(|point| point.local).collect();
    Ok(Some(TransducerSource { steps, points, delays: mine, signal }))
}
