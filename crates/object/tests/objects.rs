//! The categories, schemas and encoded forms of objects.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::marker::PhantomData;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_object::schema::ByteOrder;
use aqueduct_object::{Category, Object, decode, encode};

#[derive(Object, Clone, Debug, PartialEq)]
struct Point {
    x: f64,
    y: f64,
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Pair(u32, [u16; 2]);

#[derive(Object, Clone, Debug, PartialEq)]
struct Nothing;

#[derive(Object, Clone, Debug, PartialEq)]
struct Padded {
    tag: u8,
    value: f64,
}

#[derive(Object, Clone, Debug, PartialEq)]
enum Shape {
    Empty,
    Circle(Point, f64),
    Polygon { corners: Vec<Point>, closed: bool },
}

#[derive(Object, Clone, Copy, Debug, PartialEq)]
enum Colour {
    Red,
    Green,
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Generic<T, const N: usize> {
    values: [T; N],
    list: Vec<T>,
    marker: PhantomData<Rc<T>>,
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Tree {
    value: u32,
    children: Vec<Tree>,
    next: Option<Box<Tree>>,
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Everything {
    integers: (u8, i8, u16, i16, u32, i32, u64, i64),
    wide: (u128, i128, usize, isize),
    floats: (f32, f64),
    others: (bool, char, ()),
    text: String,
    option: Option<(u16, Option<u8>)>,
    deque: VecDeque<u32>,
    map: BTreeMap<String, Vec<u8>>,
    hashed: HashMap<u64, String>,
    set: BTreeSet<char>,
    hashes: HashSet<i32>,
    boxed: Box<Padded>,
    counted: Rc<Point>,
    shared: Arc<String>,
    shape: Shape,
    tree: Tree,
}

fn tree(depth: u32) -> Tree {
    let children = (0..depth.min(2)).map(|_| tree(depth - 1)).collect();
    Tree { value: depth, children, next: (depth > 0).then(|| Box::new(tree(depth - 1))) }
}

fn everything() -> Everything {
    Everything {
        integers: (1, -2, 3, -4, 5, -6, u64::MAX, i64::MIN),
        wide: (u128::MAX, -1, 7, -8),
        floats: (1.5, f64::MIN_POSITIVE),
        others: (true, 'ß', ()),
        text: "Wasserleitung – aqueduct".into(),
        option: Some((1, None)),
        deque: (0..10).collect(),
        map: [("a".to_owned(), vec![1, 2]), (String::new(), vec![])].into(),
        hashed: [(3, "c".to_owned())].into(),
        set: ['x', 'y'].into(),
        hashes: [-1, 1].into(),
        boxed: Box::new(Padded { tag: 1, value: 2.0 }),
        counted: Rc::new(Point { x: 1.0, y: 2.0 }),
        shared: Arc::new("s".into()),
        shape: Shape::Polygon { corners: vec![Point { x: 0.0, y: 1.0 }], closed: true },
        tree: tree(3),
    }
}

fn round_trip<T: Object + std::fmt::Debug + PartialEq>(value: &T) -> Vec<u8> {
    let bytes = encode(value);
    assert_eq!(bytes.len(), value.encoded_size());
    assert!(T::SIZE.is_none_or(|size| size == bytes.len()));
    assert_eq!(T::schema().size(), T::SIZE.map(|size| size as u64), "{}", T::schema());
    assert_eq!(&decode::<T>(&bytes).unwrap(), value);
    for len in 0..bytes.len() {
        let error = decode::<T>(&bytes[..len]).expect_err("a part is no value");
        assert!(error.at() <= len, "{error}");
    }
    assert!(
        decode::<T>(&[&bytes[..], &[0]].concat()).unwrap_err().to_string().contains("1 bytes after the end")
    );
    bytes
}

#[test]
fn all_types_of_fields_are_decoded_as_they_were_encoded() {
    round_trip(&everything());
    round_trip(&Nothing);
    round_trip(&Generic::<Pair, 2> {
        values: [Pair(1, [2, 3]), Pair(4, [5, 6])],
        list: vec![Pair(7, [8, 9])],
        marker: PhantomData,
    });
    for shape in [Shape::Empty, Shape::Circle(Point { x: 1.0, y: 2.0 }, 3.0)] {
        round_trip(&shape);
    }
}

#[test]
fn encoded_bytes_follow_the_format() {
    assert_eq!(round_trip(&Padded { tag: 7, value: 1.0 }), [7, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    assert_eq!(round_trip(&Colour::Green), [1, 0, 0, 0]);
    assert_eq!(round_trip(&Some(0x0102u16)), [1, 2, 1]);
    assert_eq!(round_trip(&None::<u16>), [0]);
    assert_eq!(round_trip(&"hé".to_owned()), [3, 0, 0, 0, 0, 0, 0, 0, b'h', 0xc3, 0xa9]);
    assert_eq!(round_trip(&vec![(1u8, 'a')]), [1, 0, 0, 0, 0, 0, 0, 0, 1, 97, 0, 0, 0]);
    assert_eq!(round_trip(&Pair(1, [2, 3])), [1, 0, 0, 0, 2, 0, 3, 0]);
}

#[test]
fn categories_are_known_at_compile_time() {
    const CATEGORIES: [Category; 8] = [
        Point::CATEGORY,
        Pair::CATEGORY,
        <[Point; 3]>::CATEGORY,
        Padded::CATEGORY,
        Colour::CATEGORY,
        <Box<Point>>::CATEGORY,
        Shape::CATEGORY,
        Everything::CATEGORY,
    ];
    use Category::{Constant, Trivial, Variable};
    assert_eq!(CATEGORIES, [Trivial, Trivial, Trivial, Constant, Constant, Constant, Variable, Variable]);
    assert_eq!(<Generic<f64, 3>>::CATEGORY, Variable);
    assert_eq!(<(f64, f64)>::CATEGORY, Trivial);
    assert_eq!((<(u8, u32)>::CATEGORY, <(u8, u32)>::SIZE), (Constant, Some(5)));
    assert_eq!([bool::CATEGORY, char::CATEGORY], [Constant, Constant]);
}

#[test]
fn fields_that_the_compiler_reorders_are_stored_in_their_order() {
    // The compiler puts the u32 first: without padding, in another order.
    #[derive(Object, Debug, PartialEq)]
    struct Reordered {
        a: u8,
        b: [u8; 3],
        c: u32,
    }
    let bytes = round_trip(&Reordered { a: 1, b: [2, 3, 4], c: 5 });
    assert_eq!(bytes, [1, 2, 3, 4, 5, 0, 0, 0]);
    let in_order = std::mem::offset_of!(Reordered, a) == 0 && std::mem::offset_of!(Reordered, c) == 4;
    assert_eq!(Reordered::CATEGORY == Category::Trivial, in_order);
}

#[test]
fn skipped_fields_get_their_defaults() {
    #[derive(Object, Debug, PartialEq)]
    struct Partly {
        kept: u32,
        #[object(skip)]
        cache: Vec<f64>,
        #[object(skip, default = 42)]
        answer: i32,
    }
    let bytes = encode(&Partly { kept: 1, cache: vec![1.0], answer: 0 });
    assert_eq!(bytes, [1, 0, 0, 0]);
    assert_eq!(decode::<Partly>(&bytes).unwrap(), Partly { kept: 1, cache: vec![], answer: 42 });
    assert_eq!((Partly::CATEGORY, Partly::SIZE), (Category::Constant, Some(4)));
}

#[test]
fn schemas_have_names_units_and_nesting() {
    #[derive(Object)]
    #[object(rename = "particle")]
    struct Particle {
        #[object(unit = "m", description = "where it is")]
        position: [f64; 3],
        #[object(rename = "kind")]
        colour: Colour,
        centre: Point,
        r#type: u8,
    }
    let schema = Particle::schema();
    assert_eq!(
        schema.signature(),
        "particle{position:[f64;3]<m>,kind:Colour<Red{},Green{}>,centre:Point{x:f64,y:f64},type:u8}"
    );
    assert_eq!(schema.size(), Some(45));
    let text = schema.to_string();
    for line in [
        "0       24    position: [f64; 3]",
        "[m]  where it is",
        "36        8      y: f64",
        "44        1    type: u8",
    ] {
        assert!(text.contains(line), "{line:?} in\n{text}");
    }
    assert_eq!(schema.locate("centre.y").unwrap().offset, Some(36));
    assert_eq!(schema.locate("position[2]").unwrap().offset, Some(16));
    for (path, why) in
        [("centre.z", "Point has x, y"), ("position[3]", "3 elements"), ("kind.x", "no fields")]
    {
        let error = schema.locate(path).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains(path), "{error}");
    }
    assert_eq!(
        schema.dtype(ByteOrder::Big).unwrap(),
        "[('position', '>f8', (3,)), ('kind', '>u4'), ('centre', [('x', '>f8'), ('y', '>f8')]), ('type', '|u1')]"
    );
    assert!(Tree::schema().dtype(ByteOrder::Little).unwrap_err().to_string().contains("children"));
    assert_eq!(Tree::schema().signature(), "Tree{value:u32,children:[^0],next:^0?}");
}

#[test]
fn hashes_do_not_change() {
    // Files of earlier versions have these hashes.
    assert_eq!(format!("{:016x}", Point::schema().hash()), "d212113c899b9843");
    assert_ne!(Point::schema().hash(), Pair::schema().hash());
}

#[test]
fn wrong_bytes_are_errors_that_name_the_field() {
    let mut bytes = encode(&everything());
    let at = Everything::schema().locate("others.0").unwrap().offset.unwrap() as usize;
    bytes[at] = 2;
    let error = decode::<Everything>(&bytes).unwrap_err();
    assert_eq!(error.to_string(), format!("2 is not a bool (0 or 1) at byte {at}, in field others.0"));
    let error = decode::<Shape>(&[9, 0, 0, 0]).unwrap_err();
    assert_eq!(error.to_string(), "Shape has no variant 9 at byte 0");
    let error = decode::<Vec<u64>>(&[255; 20]).unwrap_err();
    assert!(error.to_string().contains("at most 1 elements"), "{error}");
    assert!(decode::<Vec<()>>(&[255; 8]).is_err(), "elements without bytes are bounded too");
    assert!(decode::<String>(&[1, 0, 0, 0, 0, 0, 0, 0, 0xff]).unwrap_err().to_string().contains("UTF-8"));
    assert!(decode::<char>(&[0, 0xd8, 0, 0]).is_err());
}

#[test]
fn depth_is_bounded() {
    #[derive(Object, Debug)]
    struct Chain(Option<Box<Chain>>);
    let chain = |len: usize| [vec![1u8; len], vec![0]].concat();
    assert!(decode::<Chain>(&chain(400)).is_ok());
    let error = decode::<Chain>(&chain(100_000)).unwrap_err();
    assert!(error.to_string().contains("500 deep"), "{error}");
}

#[derive(Object, Debug)]
enum Figure {
    Dot,
    Circle { radius: f64 },
    Line(i8, u128),
}

#[derive(Object, Debug)]
struct Showcase {
    flag: bool,
    letter: char,
    pair: (u16, f32),
    figures: Vec<Figure>,
    names: BTreeMap<String, Option<u8>>,
    few: BTreeSet<i64>,
    nothing: [(); 3],
    inner: Option<Box<Showcase>>,
}

fn showcase(inner: Option<Box<Showcase>>) -> Showcase {
    Showcase {
        flag: true,
        letter: 'é',
        pair: (7, 0.5),
        figures: vec![Figure::Dot, Figure::Circle { radius: 2.0 }, Figure::Line(-1, 1 << 100)],
        names: BTreeMap::from([("a\"b".to_owned(), None), ("c".to_owned(), Some(3))]),
        few: BTreeSet::from([-1, 4]),
        nothing: [(); 3],
        inner,
    }
}

#[test]
fn values_are_printed_in_the_debug_form_of_rust() {
    let value = showcase(Some(Box::new(showcase(None))));
    let shown = Showcase::schema().show(&encode(&value)).unwrap();
    assert_eq!(shown.replace("[(); 3]", "[(), (), ()]"), format!("{value:?}"));
    assert_eq!(shown.matches("[(); 3]").count(), 2);
}

#[test]
fn bytes_that_are_not_an_object_are_errors() {
    let schema = Showcase::schema();
    let bytes = encode(&showcase(None));
    for end in 0..bytes.len() {
        assert!(schema.show(&bytes[..end]).is_err(), "{end}");
    }
    assert!(schema.show(&[&bytes[..], &[0]].concat()).is_err());
    assert!(schema.show(&[&[2][..], &bytes[1..]].concat()).unwrap_err().to_string().contains("neither"));
}

#[cfg(all(feature = "half", feature = "num-complex"))]
#[test]
fn complex_and_half_precision_numbers_are_trivial_objects() {
    use half::f16;
    use num_complex::Complex;

    assert_eq!((Complex::<f64>::CATEGORY, Complex::<f64>::SIZE), (Category::Trivial, Some(16)));
    assert_eq!((f16::CATEGORY, f16::SIZE), (Category::Trivial, Some(2)));
    // The fields that h5py writes, and the dtypes of numpy.
    assert_eq!(Complex::<f32>::schema().signature(), "Complex{r:f32,i:f32}");
    let little = aqueduct_object::schema::ByteOrder::Little;
    assert_eq!(Complex::<f32>::schema().dtype(little).unwrap(), "[('r', '<f4'), ('i', '<f4')]");
    assert_eq!(f16::schema().dtype(little).unwrap(), "'<f2'");
    let value = Complex::new(1.5f64, -2.0);
    assert_eq!(decode::<Complex<f64>>(&encode(&value)), Ok(value));
    for (number, shown) in
        [(1.5, "1.5"), (-0.25, "-0.25"), (65504.0, "65504.0"), (5.960_464_5e-8, "5.9604645e-8")]
    {
        let half = f16::from_f64(number);
        assert_eq!(decode::<f16>(&encode(&half)), Ok(half));
        assert_eq!(f16::schema().show(&encode(&half)).unwrap(), shown);
    }
    aqueduct_comm::Launch::threads(3)
        .run(|world| {
            let file = aqueduct_object::ObjectFile::replace(world, "memfs:complex")?;
            let mine = vec![(Complex::new(world.rank() as f32, 1.0), f16::ONE); 2];
            file.shared().all().write(&mine)?;
            file.close()?;
            let file = aqueduct_object::ObjectFile::<(Complex<f32>, f16)>::open(world, "memfs:complex")?;
            let all = file.at(0).all().read_vec(10)?;
            assert!(all.iter().enumerate().all(|(at, (value, _))| value.re as usize == at / 2), "{all:?}");
            file.close()
        })
        .unwrap();
}

#[test]
fn more_containers_have_the_form_of_a_vector_or_of_their_parts() {
    fn check<T: Object + PartialEq + std::fmt::Debug>(value: T, like: &[u8], signature: &str) {
        let bytes = encode(&value);
        assert_eq!((bytes.len(), &bytes[..]), (value.encoded_size(), like));
        assert_eq!(decode::<T>(&bytes), Ok(value));
        assert_eq!(T::schema().signature(), signature);
    }
    let vector = encode(&vec![1u16, 2, 3]);
    check(LinkedList::from([1u16, 2, 3]), &vector, "[u16]");
    check::<Box<[u16]>>(Box::new([1, 2, 3]), &vector, "[u16]");
    check::<Cow<'static, [u16]>>(Cow::Borrowed(&[1, 2, 3]), &vector, "[u16]");
    check::<Cow<'static, str>>("text".into(), &encode(&"text".to_owned()), "text");
    check::<Box<str>>("text".into(), &encode(&"text".to_owned()), "text");
    check(5u32..9, &encode(&[5u32, 9]), "Range{start:u32,end:u32}");
    check(
        "a".to_owned().."b".to_owned(),
        &encode(&("a".to_owned(), "b".to_owned())),
        "Range{start:text,end:text}",
    );
    let duration = Duration::new(7, 999_999_999);
    check(duration, &encode(&(7u64, 999_999_999u32)), "Duration{seconds:u64<s>,nanoseconds:u32<ns>}");
    let heap = decode::<BinaryHeap<u8>>(&encode(&BinaryHeap::from([3u8, 1, 2]))).unwrap();
    assert_eq!(heap.into_sorted_vec(), [1, 2, 3]);
    assert_eq!((Range::<f64>::CATEGORY, Duration::SIZE), (Category::Trivial, Some(12)));
    let error = decode::<Duration>(&encode(&(0u64, 1_000_000_000u32))).unwrap_err();
    assert!(error.to_string().contains("1000000000 is not a fraction of a second"), "{error}");
}
