//! Strips: the same bytes, counts and errors as the lists of their runs.

use aqueduct_device::{Handle, HandleExt, Kind, Result, Strip, strip};

use super::{Case, DeviceUnderTest, contents};
use crate::byte_pattern::pattern;
use crate::rng::SeededRng;

pub(super) const CASES: &[Case] = &[
    ("round-robin runs come back", round_robin),
    ("strips that transfer nothing never extend", empty_strips),
    ("random strips are written as their lists", random_writes),
    ("random strips are read as their lists, to the end of the file", random_reads),
    ("strips outside of every file, and other lengths, are refused", refused),
];

fn strip(offset: i64, len: u64, stride: i64, count: u64) -> Strip {
    Strip { offset, len, stride, count }
}

fn round_robin(subject: &DeviceUnderTest) {
    for (len, others, count) in
        [(4, 1, 20_000), (1, 2, 3000), (8, 7, 9000), (5, 3, 2500), (1024, 1, 200), (70_000, 1, 5)]
    {
        let (_, file) = subject.create();
        let every = strip(0, len, (len * (others + 1)) as i64, count);
        let bytes = pattern(11, 0, every.size() as usize);
        let expected = {
            let mut file = vec![0; every.span().end as usize];
            for (segment, (offset, len)) in bytes.chunks(len as usize).zip(every.runs()) {
                file[offset as usize..(offset + len) as usize].copy_from_slice(segment);
            }
            file
        };
        file.write_all_strips(&[every], &bytes).unwrap();
        assert!(contents(&*file) == expected, "runs of {len}: only they are written");
        let mut back = vec![0; bytes.len()];
        assert_eq!(file.read_full_strips(&[every], &mut back).unwrap(), every.size());
        assert!(back == bytes, "runs of {len}");
        // The other runs, too, in two strips.
        let others = [strip(len as i64, len, every.stride, count / 2), {
            let half = (count / 2) as i64 * every.stride;
            strip(len as i64 + half, len, every.stride, count - count / 2)
        }];
        file.write_all_strips(&others, &bytes).unwrap();
        assert_eq!(file.read_full_strips(&[every], &mut back).unwrap(), every.size());
        assert!(back == bytes, "runs of {len}, beside others");
        assert_eq!(file.read_full_strips(&others, &mut back).unwrap(), every.size());
        assert!(back == bytes, "other runs of {len}");
    }
}

fn empty_strips(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(b"abcdef");
    let empty = [strip(100, 0, 8, 5), strip(100, 8, 8, 0)];
    assert_eq!(file.write_strips(&empty, &[]).unwrap(), 0);
    assert_eq!(file.write_strips(&[], &[]).unwrap(), 0);
    assert_eq!(file.read_strips(&empty, &mut []).unwrap(), 0);
    assert_eq!(file.read_strips(&[], &mut []).unwrap(), 0);
    file.write_all_strips(&[empty[0], strip(1, 1, 2, 2), empty[1]], b"BD").unwrap();
    assert_eq!(contents(&*file), b"aBcDef");
}

/// Strips in a file of about 300 KiB, with runs of a byte up to several chunks, in any order.
fn random_strips(random: &mut SeededRng) -> Vec<Strip> {
    let longest = [1, 4, 17, 700, 9000][random.below(5)];
    let strips = (0..random.below(5)).map(|_| {
        let (len, count) = (random.below(longest) as u64 + 1, random.below(20) as u64);
        let stride = random.below(3 * longest) as i64 - longest as i64 / 2;
        let back = (-stride).max(0) * count as i64;
        strip(back + random.below(100_000) as i64, len, stride, count)
    });
    strips.collect()
}

/// Writes without overlaps: what overlapping runs leave is not said.
fn disjoint(strips: &[Strip]) -> Vec<Strip> {
    let mut kept: Vec<Strip> = Vec::new();
    let mut taken = Vec::<(u64, u64)>::new();
    for strip in strips {
        let runs: Vec<_> = strip.runs().map(|(offset, len)| (offset, offset + len)).collect();
        let mut all = [taken.clone(), runs].concat();
        all.sort_unstable();
        if all.windows(2).all(|pair| pair[0].1 <= pair[1].0) {
            taken = all;
            kept.push(*strip);
        }
    }
    kept
}

fn random_writes(subject: &DeviceUnderTest) {
    let mut random = SeededRng::new(20);
    for round in 0..30 {
        let strips = disjoint(&random_strips(&mut random));
        let bytes = pattern(round, 0, strip::total(&strips) as usize);
        let (_, one) = subject.create_with(b"before");
        let (_, other) = subject.create_with(b"before");
        one.write_all_strips(&strips, &bytes).unwrap();
        other.write_all(&strip::segments(&strips, &bytes).collect::<Vec<_>>()).unwrap();
        assert!(contents(&*one) == contents(&*other), "{strips:?}");
    }
}

fn random_reads(subject: &DeviceUnderTest) {
    let mut random = SeededRng::new(21);
    let (_, file) = subject.create_with(&pattern(12, 0, 90_001));
    file.set_len(150_000).unwrap();
    for _ in 0..60 {
        let strips = random_strips(&mut random);
        let total = strip::total(&strips) as usize;
        let (mut one, mut other) = (vec![0xEE; total], vec![0xEE; total]);
        let count = file.read_full_strips(&strips, &mut one).unwrap();
        let mut list: Vec<_> = strip::segments_mut(&strips, &mut other).collect();
        assert_eq!(count, file.read_full(&mut list).unwrap(), "{strips:?}");
        assert!(one[..count as usize] == other[..count as usize], "{strips:?}");
    }
}

fn refused(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(b"abc");
    let invalid = |outcome: Result<u64>| outcome.unwrap_err().kind() == Kind::InvalidArgument;
    let refuses = |file: &dyn Handle, strips: &[Strip], memory: usize| {
        invalid(file.write_strips(strips, &vec![1; memory]))
            && invalid(file.read_strips(strips, &mut vec![0; memory]))
    };
    let top = i64::MAX;
    for outside in [strip(top, 1, 1, 1), strip(-1, 1, 1, 1), strip(0, 1, top, 2), strip(8, 1, -9, 2)] {
        assert!(refuses(&*file, &[strip(0, 1, 2, 2), outside], 2 + outside.size() as usize), "{outside:?}");
    }
    assert!(refuses(&*file, &[strip(0, 4, 8, 3)], 11) && refuses(&*file, &[strip(0, 4, 8, 3)], 13));
    assert!(refuses(&*file, &[strip(0, u64::MAX, 1, u64::MAX)], 3));
    assert_eq!(contents(&*file), b"abc", "nothing is transferred");
}
