//! Older files and newer types: migration by the attributes of the type, or an error that shows both types.

use aqueduct_comm::Launch;
use aqueduct_file::Mode;
use aqueduct_object::schema::ByteOrder;
use aqueduct_object::{Error, Kind, Object, ObjectFile, ObjectOpenOptions};

mod old {
    use aqueduct_object::Object;

    #[derive(Object, Clone)]
    pub(super) enum Phase {
        Gas,
        Solid { lattice: u8 },
    }

    #[derive(Object, Clone)]
    pub(super) struct Atom {
        pub(super) charge: i32,
        #[object(unit = "m")]
        pub(super) pos: [f64; 3],
        pub(super) junk: String,
        pub(super) phase: Phase,
        pub(super) bonds: Vec<Bond>,
    }

    #[derive(Object, Clone)]
    pub(super) struct Bond {
        pub(super) to: u32,
        pub(super) next: Option<Box<Bond>>,
    }

    #[derive(Object, Clone)]
    pub(super) struct Fixed {
        pub(super) a: u32,
        pub(super) b: f64,
    }
}

#[derive(Object, Clone, Debug, PartialEq)]
enum Phase {
    Liquid,
    #[object(alias = "Solid")]
    Crystal {
        lattice: u8,
        #[object(default = 0.5)]
        order: f64,
    },
    Gas,
}

#[derive(Object, Clone, Debug, PartialEq)]
#[object(removed("junk"))]
struct Atom {
    #[object(alias = "pos", unit = "m")]
    position: [f64; 3],
    charge: i32,
    #[object(default = "unnamed".to_owned())]
    name: String,
    phase: Phase,
    bonds: Vec<Bond>,
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Bond {
    next: Option<Box<Bond>>,
    to: u32,
    #[object(default)]
    strength: f32,
}

fn bond(depth: u32) -> old::Bond {
    old::Bond { to: depth, next: (depth > 0).then(|| Box::new(bond(depth - 1))) }
}

fn newer_bond(depth: u32) -> Bond {
    Bond { next: (depth > 0).then(|| Box::new(newer_bond(depth - 1))), to: depth, strength: 0.0 }
}

#[test]
fn fields_are_added_removed_renamed_and_reordered() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let job = |world: &aqueduct_comm::Comm| {
            let name = "memfs:evolution";
            let atom = |phase| old::Atom {
                charge: -1,
                pos: [1.0, 2.0, 3.0],
                junk: "j".into(),
                phase,
                bonds: vec![bond(0), bond(3)],
            };
            let file = ObjectOpenOptions::new(Mode::read_write().create())
                .replace()
                .byte_order(order)
                .open(world, name)?;
            file.at(0).all().write(&[atom(old::Phase::Gas), atom(old::Phase::Solid { lattice: 7 })])?;
            file.close()?;
            let file = ObjectFile::<Atom>::open(world, name)?;
            let atoms = file.at(0).all().read_vec(9)?;
            let newer = |phase| Atom {
                position: [1.0, 2.0, 3.0],
                charge: -1,
                name: "unnamed".into(),
                phase,
                bonds: vec![newer_bond(0), newer_bond(3)],
            };
            assert_eq!(atoms, [newer(Phase::Gas), newer(Phase::Crystal { lattice: 7, order: 0.5 })]);
            // A field is accessed by its name in the file.
            assert_eq!(file.field::<[f64; 3]>("pos")?.all().read(1..2)?, [[1.0, 2.0, 3.0]]);
            file.close()?;
            let refused = ObjectOpenOptions::new(Mode::read_write()).open::<Atom>(world, name).unwrap_err();
            assert_eq!(refused.kind(), Kind::WrongType, "older files are read, not written");
            Ok::<(), Error>(())
        };
        Launch::threads(2).run(job).unwrap();
    }
}

#[test]
fn the_size_of_constant_objects_may_change() {
    #[derive(Object, Debug, PartialEq)]
    #[object(rename = "Fixed")]
    struct Newer {
        b: f64,
        #[object(default = 9)]
        c: u8,
        a: u32,
    }
    let job = |world: &aqueduct_comm::Comm| {
        let file = ObjectFile::create(world, "memfs:evolution-fixed")?;
        file.at(world.rank() as u64).all().write(&[old::Fixed { a: 3, b: 0.5 }])?;
        file.close()?;
        let file = ObjectFile::<Newer>::open(world, "memfs:evolution-fixed")?;
        assert_eq!(file.at(1).read_vec(5)?, [Newer { b: 0.5, c: 9, a: 3 }]);
        assert_eq!(file.at(0).all().start_read(1)?.wait()?, [Newer { b: 0.5, c: 9, a: 3 }]);
        file.close()
    };
    Launch::threads(2).run(job).unwrap();
}

fn refusal<T: Object>() -> String {
    let job = |world: &aqueduct_comm::Comm| {
        let error = ObjectFile::<T>::open(world, "memfs:evolution-wrong").unwrap_err();
        assert_eq!(error.kind(), Kind::WrongType);
        Ok::<String, Error>(error.to_string())
    };
    Launch::threads(1).run(job).unwrap().remove(0)
}

#[test]
fn the_error_of_a_wrong_type_shows_both_types() {
    #[derive(Object)]
    #[object(rename = "Fixed")]
    struct More {
        a: u32,
        b: f64,
        c: u8,
    }
    #[derive(Object)]
    #[object(rename = "Fixed")]
    struct Less {
        a: u32,
    }
    #[derive(Object)]
    #[object(rename = "Fixed")]
    struct Narrow {
        a: u32,
        b: f32,
    }
    #[derive(Object)]
    #[object(rename = "Fixed")]
    struct Measured {
        a: u32,
        #[object(unit = "m")]
        b: f64,
    }
    #[derive(Object)]
    struct Other {
        a: u32,
        b: f64,
    }
    let job = |world: &aqueduct_comm::Comm| {
        let file = ObjectFile::create(world, "memfs:evolution-wrong")?;
        file.at(0).all().write(&[old::Fixed { a: 1, b: 2.0 }])?;
        file.close()
    };
    Launch::threads(1).run(job).unwrap();
    assert!(refusal::<More>().contains("no field \"c\" of Fixed; add #[object(default)]"));
    assert!(refusal::<Less>().contains("a field \"b\" that Fixed lacks; add #[object(removed(\"b\"))]"));
    assert!(refusal::<Other>().contains("the file has Fixed, the program has Other"));
    assert!(refusal::<Measured>().contains("has no unit in the file and the unit m in the program"));
    let text = refusal::<Narrow>();
    let expected = "in field \"b\" of Fixed: the file has f64, the program has f32
    in the file | in the program
    Fixed       | Fixed
      a: u32    |   a: u32
-->   b: f64    |   b: f32";
    assert!(text.contains(expected), "{text}");
}
