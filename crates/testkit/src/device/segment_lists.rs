//! Lists of segments: order, counts, empty segments, overlaps, many of them.

use aqueduct_device::{HandleExt, Segment, SegmentMut, total, total_mut};

use super::{Case, DeviceUnderTest, contents};
use crate::byte_pattern::pattern;

pub(super) const CASES: &[Case] = &[
    ("bytes come back", bytes_come_back),
    ("an empty list transfers nothing", empty_list),
    ("empty segments transfer nothing and never extend", empty_pieces),
    ("segments may be in any order", unsorted),
    ("adjacent segments", adjacent),
    ("overlapping segments with equal bytes", overlapping),
    ("thousands of segments", thousands),
    ("segments larger than the transfer size of the device", large_pieces),
    ("counts are those of a prefix", prefix_counts),
    ("a read list stops at the first end of file", read_stops),
    ("the same place can be read twice in one list", read_twice),
];

fn bytes_come_back(subject: &DeviceUnderTest) {
    for length in [1, 511, 512, 513, 4096, 4097, 65536, 65537, 300_000] {
        let (_, file) = subject.create();
        let bytes = pattern(1, 0, length);
        file.write_at(0, &bytes).unwrap();
        assert_eq!(contents(&*file), bytes);
        file.write_at(7, b"x").unwrap();
        let mut expected = bytes;
        expected.resize(length.max(8), 0);
        expected[7] = b'x';
        assert_eq!(contents(&*file), expected);
    }
}

fn empty_list(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(b"abc");
    assert_eq!(file.read(&mut []).unwrap(), 0);
    assert_eq!(file.write(&[]).unwrap(), 0);
    file.write_all(&[]).unwrap();
    assert_eq!(file.read_full(&mut []).unwrap(), 0);
    assert_eq!(contents(&*file), b"abc");
}

fn empty_pieces(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(b"abcdef");
    assert_eq!(file.write(&[Segment::new(100, b""), Segment::new(0, b"")]).unwrap(), 0);
    assert_eq!(file.len().unwrap(), 6);
    file.write_all(&[
        Segment::new(1 << 40, b""),
        Segment::new(1, b"B"),
        Segment::new(50, b""),
        Segment::new(2, b"C"),
    ])
    .unwrap();
    assert_eq!(contents(&*file), b"aBCdef");
    let (mut a, mut b) = ([0; 2], [0; 1]);
    let mut segments = [
        SegmentMut::new(1 << 40, &mut []),
        SegmentMut::new(4, &mut a),
        SegmentMut::new(99, &mut []),
        SegmentMut::new(0, &mut b),
    ];
    assert_eq!(file.read_full(&mut segments).unwrap(), 3, "an empty segment behind the end ends nothing");
    assert_eq!((&a, &b), (b"ef", b"a"));
}

fn unsorted(subject: &DeviceUnderTest) {
    let (_, file) = subject.create();
    let bytes = pattern(2, 0, 40_000);
    let order = [7, 2, 9, 0, 5, 3, 8, 1, 6, 4];
    let segments: Vec<_> = order
        .iter()
        .map(|&block| Segment::new(block * 4000, &bytes[block as usize * 4000..][..4000]))
        .collect();
    file.write_all(&segments).unwrap();
    assert_eq!(contents(&*file), bytes);
    let mut back = vec![0; 40_000];
    let segments =
        back.chunks_mut(4000).zip(order).map(|(chunk, block)| SegmentMut::new(block * 4000, chunk));
    assert_eq!(file.read_full(&mut segments.collect::<Vec<_>>()).unwrap(), 40_000);
    for (chunk, block) in back.chunks(4000).zip(order) {
        assert!(chunk == &bytes[block as usize * 4000..][..4000], "block {block}");
    }
}

fn adjacent(subject: &DeviceUnderTest) {
    let (_, file) = subject.create();
    let bytes = pattern(3, 0, 3000);
    let segments: Vec<_> =
        bytes.chunks(7).enumerate().map(|(index, chunk)| Segment::new(index as u64 * 7, chunk)).collect();
    file.write_all(&segments).unwrap();
    assert_eq!(contents(&*file), bytes);
    let mut back = vec![0; 3000];
    let mut segments: Vec<_> = back
        .chunks_mut(11)
        .enumerate()
        .map(|(index, chunk)| SegmentMut::new(index as u64 * 11, chunk))
        .collect();
    assert_eq!(file.read_full(&mut segments).unwrap(), 3000);
    assert_eq!(back, bytes);
}

fn overlapping(subject: &DeviceUnderTest) {
    let (_, file) = subject.create();
    let bytes = pattern(4, 0, 10_000);
    let extents = [(0, 6000), (5000, 5000), (100, 50), (100, 50), (0, 10_000)];
    let segments: Vec<_> =
        extents.iter().map(|&(at, size)| Segment::new(at as u64, &bytes[at..at + size])).collect();
    file.write_all(&segments).unwrap();
    assert_eq!(contents(&*file), bytes);
}

fn thousands(subject: &DeviceUnderTest) {
    const COUNT: usize = 5000;
    let (_, file) = subject.create();
    let bytes = pattern(5, 0, COUNT * 5);
    let place = |index: usize| (index * 5 + 100 * (index / 1000)) as u64;
    let segments: Vec<_> =
        bytes.chunks(5).enumerate().map(|(index, chunk)| Segment::new(place(index), chunk)).collect();
    file.write_all(&segments).unwrap();
    assert_eq!(file.len().unwrap(), place(COUNT - 1) + 5);
    let mut back = vec![0; COUNT * 5];
    let mut segments: Vec<_> =
        back.chunks_mut(5).enumerate().map(|(index, chunk)| SegmentMut::new(place(index), chunk)).collect();
    assert_eq!(file.read_full(&mut segments).unwrap(), (COUNT * 5) as u64);
    assert!(back == bytes, "scattered segments come back");
    let gap = &contents(&*file)[5000..5100];
    assert!(gap.iter().all(|&byte| byte == 0), "what lies between the segments is not touched");
}

fn large_pieces(subject: &DeviceUnderTest) {
    let (_, file) = subject.create();
    let bytes = pattern(6, 0, 3 << 20);
    file.write_all(&[Segment::new(1 << 21, &bytes[1 << 21..]), Segment::new(0, &bytes[..1 << 21])]).unwrap();
    assert!(contents(&*file) == bytes);
}

/// Single calls may be short; what they count is there, and they end in the end.
fn prefix_counts(subject: &DeviceUnderTest) {
    let (_, file) = subject.create();
    let bytes = pattern(7, 0, 600);
    let mut done = 0;
    while done < 600 {
        let rest = &bytes[done..];
        let (first, second) = rest.split_at(rest.len() / 2);
        let segments = [Segment::new(done as u64, first), Segment::new((done + first.len()) as u64, second)];
        let count = file.write(&segments).unwrap();
        assert!(count > 0 && count <= total(&segments), "a write makes progress: {count}");
        done += count as usize;
        assert_eq!(contents(&*file)[..done], bytes[..done], "what was counted is there");
    }
    let mut done = 0;
    loop {
        let (mut a, mut b) = ([0xEE; 250], [0xEE; 250]);
        let mut segments = [SegmentMut::new(done as u64, &mut a), SegmentMut::new(done as u64 + 250, &mut b)];
        let count = file.read(&mut segments).unwrap() as usize;
        assert!(count as u64 <= total_mut(&segments));
        let got: Vec<u8> = a.into_iter().chain(b).take(count).collect();
        assert_eq!(got, bytes[done..done + count], "what was counted was read");
        done += count;
        if count == 0 {
            break;
        }
    }
    assert_eq!(done, 600, "a read of nothing means the end of the file");
}

fn read_stops(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(b"abcdefghij");
    let (mut a, mut b, mut c) = ([0; 4], [0; 6], [0; 4]);
    let mut segments = [SegmentMut::new(0, &mut a), SegmentMut::new(7, &mut b), SegmentMut::new(0, &mut c)];
    assert_eq!(file.read_full(&mut segments).unwrap(), 7);
    assert_eq!((&a, &b[..3]), (b"abcd", &b"hij"[..]));
    let mut segments = [SegmentMut::new(10, &mut a), SegmentMut::new(0, &mut c)];
    assert_eq!(file.read_full(&mut segments).unwrap(), 0, "the first segment lies at the end");
}

fn read_twice(subject: &DeviceUnderTest) {
    let (_, file) = subject.create_with(b"abcdefghij");
    let (mut a, mut b) = ([0; 6], [0; 6]);
    let mut segments = [SegmentMut::new(2, &mut a), SegmentMut::new(4, &mut b)];
    assert_eq!(file.read_full(&mut segments).unwrap(), 12);
    assert_eq!((&a, &b), (b"cdefgh", b"efghij"));
}
