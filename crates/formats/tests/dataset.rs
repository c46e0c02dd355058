//! Open netCDF files: definitions at any time, explicit moves of data, commits of records, errors on all ranks.

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::netcdf::{
    CdfVersion, NcType, NetcdfCreateOptions, NetcdfFile, NetcdfOpenOptions, Selection, Values, VariableId,
};
use aqueduct_formats::{Kind, Result};

fn on(ranks: usize, program: impl Fn(&Comm) -> Result<()> + Sync) {
    Launch::threads(ranks).run(program).unwrap();
}

/// A file with a variable `fixed` of 10 ints and one `moving` of 3 shorts a record, two records of it written.
fn started(
    world: &Comm,
    create: &NetcdfCreateOptions,
    name: &str,
) -> Result<(NetcdfFile, VariableId, VariableId)> {
    let mut dataset = create.clone().replace().create(world, name)?;
    let (fixed, moving) = dataset.define(|file| {
        let (time, x) = (file.unlimited("time")?, file.dimension("x", 10)?);
        let y = file.dimension("y", 3)?;
        Ok((file.variable("fixed", NcType::Int, &[x])?, file.variable("moving", NcType::Short, &[time, y])?))
    })?;
    dataset.at(fixed, Selection::whole()).all().write(&(0..10).collect::<Vec<i32>>())?;
    dataset.at(moving, Selection::whole()).all().write(&[1i16, 2, 3, 4, 5, 6])?;
    Ok((dataset, fixed, moving))
}

fn check(dataset: &NetcdfFile, fixed: VariableId, moving: VariableId) -> Result<()> {
    assert_eq!(dataset.at(fixed, Selection::whole()).all().read_vec::<i32>()?, (0..10).collect::<Vec<_>>());
    assert_eq!(dataset.at(moving, Selection::whole()).all().read_vec::<i16>()?, [1, 2, 3, 4, 5, 6]);
    Ok(())
}

#[test]
fn definitions_are_allowed_after_data_was_written() {
    on(3, |world| {
        let (mut dataset, fixed, moving) = started(world, &NetcdfCreateOptions::new(), "memfs:any-time.nc")?;
        let before = dataset.counters().written;
        let later = dataset.define(|file| {
            file.attribute("history", "extended")?;
            file.attribute_of(fixed, "valid", [1i32, 2])?;
            let z = file.dimension("z", 100)?;
            file.variable("later", NcType::Double, &[z])
        })?;
        // Nothing was copied: at most a header was written.
        assert!(dataset.counters().written - before < 1000);
        let third = 100 / 3 + 1;
        let start = third * world.rank() as u64;
        let mine = start..(start + third).min(100);
        let values: Vec<f64> = mine.clone().map(|at| at as f64).collect();
        dataset.at(later, mine).all().write(&values)?;
        check(&dataset, fixed, moving)?;
        dataset.close()?;
        let dataset = NetcdfOpenOptions::new().open(world, "memfs:any-time.nc")?;
        check(&dataset, fixed, moving)?;
        let all = dataset.at(dataset.variable("later")?, Selection::whole()).all().read_vec::<f64>()?;
        assert!(all.iter().copied().eq((0..100).map(f64::from)));
        assert_eq!(dataset.header().attribute("history").and_then(Values::text), Some("extended"));
        dataset.close()
    });
}

#[test]
fn definitions_that_do_not_fit_need_rearrange() {
    for (case, create) in
        [NetcdfCreateOptions::new().header_room(0).fixed_room(0), NetcdfCreateOptions::new()]
            .into_iter()
            .enumerate()
    {
        on(3, |world| {
            let name = format!("memfs:room-{case}.nc");
            let (mut dataset, fixed, moving) = started(world, &create, &name)?;
            // More than the free space of the header.
            let long = "long ".repeat(20_000);
            let refused = dataset.define(|file| file.attribute("long", long.as_str())).unwrap_err();
            assert_eq!(refused.kind(), Kind::HeaderFull, "{refused}");
            assert!(refused.to_string().contains("rearrange"), "{refused}");
            assert!(dataset.header().attribute("long").is_none(), "a refused batch is not applied");
            check(&dataset, fixed, moving)?;
            let ((), moved) = dataset.rearrange(|file| file.attribute("long", long.as_str()))?;
            assert_eq!(moved, 40 + 12);
            check(&dataset, fixed, moving)?;
            // Another record variable: the records get larger.
            let more = |file: &mut aqueduct_formats::netcdf::NetcdfDefinitions<'_>| {
                let time = file.header().find_dimension("time").unwrap();
                file.variable("more", NcType::Double, &[time])
            };
            assert_eq!(dataset.define(more).unwrap_err().kind(), Kind::HeaderFull);
            let (more, moved) = dataset.rearrange(more)?;
            // Without free space the header has to grow again.
            assert_eq!(moved, [40 + 12, 12][case]);
            check(&dataset, fixed, moving)?;
            dataset.at(more, Selection::whole()).all().write(&[0.5f64, 1.5])?;
            // A fixed variable, which is stored before the records.
            let large = |file: &mut aqueduct_formats::netcdf::NetcdfDefinitions<'_>| {
                let large = file.dimension("large", 1_000_000)?;
                file.variable("large", NcType::Byte, &[large])
            };
            assert_eq!(dataset.define(large).unwrap_err().kind(), Kind::HeaderFull);
            let (large, moved) = dataset.rearrange(large)?;
            assert_eq!(moved, [40 + 32, 32][case]);
            dataset.at(large, Selection::whole()).all().write(&vec![7i8; 1_000_000])?;
            check(&dataset, fixed, moving)?;
            dataset.close()?;
            let dataset = NetcdfOpenOptions::new().open(world, &name)?;
            check(&dataset, fixed, moving)?;
            assert_eq!(dataset.at(more, Selection::whole()).all().read_vec::<f64>()?, [0.5, 1.5]);
            assert_eq!(dataset.at(large, Selection::whole()).all().read_vec::<i8>()?, vec![7; 1_000_000]);
            assert_eq!(dataset.header().attribute("long").map(Values::len), Some(long.len()));
            dataset.close()
        });
    }
}

#[test]
fn definitions_before_data_always_fit() {
    on(2, |world| {
        let create = NetcdfCreateOptions::new().header_room(0).fixed_room(0).replace();
        let mut dataset = create.create(world, "memfs:empty.nc")?;
        let time = dataset.define(|file| file.unlimited("time"))?;
        let mut variables = Vec::new();
        for number in 0..50 {
            variables.push(dataset.define(|file| {
                file.attribute(&format!("a{number}"), "value".repeat(10))?;
                file.variable(
                    &format!("v{number}"),
                    NcType::Int,
                    if number % 2 == 0 { &[] } else { std::slice::from_ref(&time) },
                )
            })?);
        }
        for (number, variable) in variables.iter().enumerate() {
            dataset.at(*variable, Selection::whole()).all().write(&[number as i32])?;
        }
        dataset.close()?;
        let dataset = NetcdfOpenOptions::new().open(world, "memfs:empty.nc")?;
        for (number, variable) in variables.iter().enumerate() {
            assert_eq!(dataset.at(*variable, Selection::whole()).read_vec::<i32>()?, [number as i32]);
        }
        dataset.close()
    });
}

#[test]
fn readers_see_committed_records() {
    on(2, |world| {
        let (dataset, _, moving) = started(world, &NetcdfCreateOptions::new(), "memfs:committed.nc")?;
        let mut reader = NetcdfOpenOptions::new().open(world, "memfs:committed.nc")?;
        assert_eq!((dataset.records(), reader.records()), (2, 0));
        let early = reader.at(moving, Selection::record(0)).all().read_vec::<i16>().unwrap_err();
        assert_eq!(early.kind(), Kind::BadArgument, "{early}");
        dataset.commit()?;
        assert_eq!(reader.refresh()?, 2);
        assert_eq!(reader.at(moving, Selection::record(1)).all().read_vec::<i16>()?, [4, 5, 6]);
        // One rank adds records; the others see them after a commit.
        if world.rank() == 1 {
            dataset.at(moving, Selection::record(4)).write(&[7i16, 8, 9])?;
            assert_eq!(dataset.records(), 5);
        } else {
            assert_eq!(dataset.records(), 2);
        }
        dataset.commit()?;
        assert_eq!((dataset.records(), reader.refresh()?), (5, 5));
        assert_eq!(reader.at(moving, [3..5, 1..2]).all().read_vec::<i16>()?, [0, 8]);
        reader.close()?;
        dataset.close()
    });
}

#[test]
fn an_invalid_argument_of_one_rank_is_an_error_on_all_ranks() {
    on(3, |world| {
        let (mut dataset, fixed, moving) = started(world, &NetcdfCreateOptions::new(), "memfs:wrong.nc")?;
        let one = world.rank() == 1;
        let slab = |wrong: Selection| if one { wrong } else { Selection::whole() };
        let wrong = [
            Selection::from(5..11),
            Selection::from([0..5, 0..1]),
            Selection::block([0], [5]).stride([0]),
            Selection::block([0], [10]).stride([2]),
            Selection::block([u64::MAX], [2]),
            Selection::block([0], [u64::MAX]),
            Selection::record(0),
            Selection::whole().stride([2]),
        ];
        for wrong in wrong {
            let written = dataset.at(fixed, slab(wrong.clone())).all().write(&[1i32; 10]).unwrap_err();
            assert_eq!((written.kind(), written.rank().is_some()), (Kind::BadArgument, !one), "{written}");
            let values = &[1i32; 10];
            let mut queue = dataset.queue();
            queue.put(fixed, slab(wrong), values);
            assert_eq!(queue.run_all().unwrap_err().kind(), Kind::BadArgument);
        }
        let types = if one {
            dataset.at(fixed, Selection::whole()).all().write(&[1.0f64; 10])
        } else {
            dataset.at(fixed, Selection::whole()).all().write(&[1i32; 10])
        };
        assert_eq!(types.unwrap_err().kind(), Kind::WrongType);
        let id = if one { VariableId(99) } else { fixed };
        assert_eq!(
            dataset.at(id, Selection::whole()).all().read_vec::<i32>().unwrap_err().kind(),
            Kind::NoSuchName
        );
        assert_eq!(dataset.describe(VariableId(99)).unwrap_err().kind(), Kind::NoSuchName);
        let name = format!("rank{}", world.rank());
        assert_eq!(dataset.define(|file| file.attribute(&name, 1i32)).unwrap_err().kind(), Kind::NotSame);
        let failed =
            dataset.define(|file| file.variable(if one { "fixed" } else { "other" }, NcType::Int, &[]));
        assert_eq!(failed.unwrap_err().kind(), Kind::NameExists);
        check(&dataset, fixed, moving)?;
        dataset.close()?;
        let mut dataset = NetcdfOpenOptions::new().open(world, "memfs:wrong.nc")?;
        assert_eq!(
            dataset.at(fixed, Selection::whole()).all().write(&[1i32; 10]).unwrap_err().kind(),
            Kind::ReadOnly
        );
        assert_eq!(dataset.define(|file| file.attribute("a", 1i32)).unwrap_err().kind(), Kind::ReadOnly);
        dataset.close()?;
        let exists = NetcdfCreateOptions::new().create(world, "memfs:wrong.nc").unwrap_err();
        assert!(exists.to_string().contains("replace"), "{exists}");
        Ok(())
    });
}

#[test]
fn invalid_definitions_are_errors() {
    on(2, |world| {
        let mut dataset = NetcdfCreateOptions::new()
            .version(CdfVersion::Cdf1)
            .replace()
            .create(world, "memfs:refused.nc")?;
        let refused = |outcome: Result<()>, kind: Kind, word: &str| {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(word) && error.to_string().contains("refused.nc"), "{error}");
        };
        dataset.define(|file| {
            let time = file.unlimited("time")?;
            let x = file.dimension("x", 5)?;
            refused(file.unlimited("again").map(drop), Kind::BadArgument, "unlimited already");
            refused(file.dimension("zero", 0).map(drop), Kind::BadArgument, "unlimited");
            refused(file.dimension("x", 7).map(drop), Kind::NameExists, "already");
            refused(file.dimension("a/b", 7).map(drop), Kind::BadArgument, "cannot be a name");
            refused(file.dimension("long", 1 << 31).map(drop), Kind::TooLarge, "CDF-5");
            refused(file.variable("v", NcType::UInt64, &[x]).map(drop), Kind::WrongType, "CDF-5");
            refused(file.variable("v", NcType::Int, &[x, time]).map(drop), Kind::BadArgument, "first");
            refused(file.attribute("a", 1u64), Kind::WrongType, "uint64");
            let v = file.variable("v", NcType::Int, &[time, x])?;
            refused(file.attribute_of(v, "_FillValue", 1.5f64), Kind::WrongType, "int");
            file.attribute_of(v, "gone", 1i32)?;
            assert!(file.remove_attribute(Some(v), "gone")? && !file.remove_attribute(None, "gone")?);
            Ok(())
        })?;
        assert_eq!(dataset.variable("w").unwrap_err().kind(), Kind::NoSuchName);
        assert_eq!(dataset.dimension("w").unwrap_err().kind(), Kind::NoSuchName);
        dataset.close()
    });
}

#[test]
fn variables_are_filled_on_request() {
    on(3, |world| {
        let mut dataset = NetcdfCreateOptions::new().replace().create(world, "memfs:filled.nc")?;
        let (a, b, c) = dataset.define(|file| {
            let (time, x) = (file.unlimited("time")?, file.dimension("x", 5)?);
            let a = file.variable("a", NcType::Double, &[x])?;
            let b = file.variable("b", NcType::Byte, &[time, x])?;
            let c = file.variable("c", NcType::Short, &[time])?;
            file.attribute_of(c, "_FillValue", -5i16)?;
            Ok((a, b, c))
        })?;
        assert_eq!(dataset.at(a, Selection::whole()).all().read_vec::<f64>()?, [0.0; 5]);
        dataset.fill(a, None)?;
        dataset.fill(b, Some(1))?;
        dataset.fill(c, Some(0))?;
        assert_eq!(dataset.fill(a, Some(0)).unwrap_err().kind(), Kind::BadArgument);
        assert_eq!(dataset.fill(b, None).unwrap_err().kind(), Kind::BadArgument);
        assert_eq!(dataset.at(a, Selection::whole()).all().read_vec::<f64>()?, [9.969_209_968_386_869e36; 5]);
        assert_eq!(dataset.at(b, Selection::whole()).all().read_vec::<i8>()?, [[0; 5], [-127; 5]].concat());
        assert_eq!(dataset.at(c, Selection::whole()).all().read_vec::<i16>()?, [-5, 0]);
        dataset.close()
    });
}

#[test]
fn a_queue_is_one_access() {
    on(3, |world| {
        let mut dataset = NetcdfCreateOptions::new().replace().create(world, "memfs:one-access.nc")?;
        let variables = dataset.define(|file| {
            let (time, x) = (file.unlimited("time")?, file.dimension("x", 30)?);
            let name = |number: usize| format!("v{number}");
            (0..256)
                .map(|number| match number % 2 {
                    0 => file.variable(&name(number), NcType::Int, &[x]),
                    _ => file.variable(&name(number), NcType::Int, &[time, x]),
                })
                .collect::<Result<Vec<_>>>()
        })?;
        let mine = 10 * world.rank() as u64..10 * (world.rank() as u64 + 1);
        let values: Vec<Vec<i32>> =
            (0..256).map(|number| mine.clone().map(|at| number * 100 + at as i32).collect()).collect();
        // The commit writes the header.
        dataset.commit()?;
        let before = dataset.counters().writes;
        let mut queue = dataset.queue();
        for (number, (variable, values)) in variables.iter().zip(&values).enumerate() {
            match number % 2 {
                0 => queue.put(*variable, mine.clone(), values),
                _ => queue.put(*variable, [2..3, mine.clone()], values),
            };
        }
        assert_eq!(queue.len(), 256);
        queue.run_all()?;
        assert_eq!((dataset.counters().writes - before, dataset.records()), (1, 3));
        let mut back = vec![vec![0i32; 30]; 256];
        let before = dataset.counters().reads;
        let mut queue = dataset.queue();
        for (number, (variable, back)) in variables.iter().zip(&mut back).enumerate() {
            match number % 2 {
                0 => queue.get(*variable, Selection::whole(), back),
                _ => queue.get(*variable, Selection::record(2), back),
            };
        }
        queue.run_all()?;
        assert_eq!(dataset.counters().reads - before, 1);
        for (number, back) in back.iter().enumerate() {
            assert!(
                back.iter().copied().eq((0..30).map(|at| number as i32 * 100 + at)),
                "{number}: {back:?}"
            );
        }
        // Some ranks queue nothing.
        let mut queue = dataset.queue();
        let last = [5i32; 30];
        if world.rank() == 2 {
            queue.put(variables[0], Selection::whole(), &[4i32; 30]).put(
                variables[0],
                Selection::whole(),
                &last,
            );
        }
        queue.run_all()?;
        assert_eq!(dataset.at(variables[0], Selection::whole()).all().read_vec::<i32>()?, last);
        dataset.close()
    });
}
