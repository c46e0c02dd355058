//! Objects in files: the five tasks of the documentation (`docs/objects.md`), each in a few lines.

use aqueduct::object::Result;
use aqueduct::prelude::*;

#[derive(Object, Clone, Debug, Default, PartialEq)]
struct Cell {
    pressure: f64,
    level: u32,
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Particle {
    id: u64,
    #[object(unit = "m")]
    trace: Vec<[f64; 3]>,
    neighbours: Vec<u32>,
}

fn single(world: &Comm) -> Result<()> {
    let cell = Cell { pressure: 1.0, level: world.rank() as u32 };
    // lines: single
    let file = ObjectFile::create(world, "memfs:single")?;
    file.at(world.rank() as u64).write(Single(&cell))?;
    file.close()?;
    // end
    let file = ObjectFile::<Cell>::open(world, "memfs:single")?;
    assert_eq!(file.at(world.rank() as u64).read_vec(1)?, [cell]);
    file.close()
}

fn container(world: &Comm) -> Result<()> {
    let cells = vec![Cell::default(); 10 + world.rank()];
    // lines: container
    let file = ObjectFile::create(world, "memfs:container")?;
    file.shared().all().write(&cells)?;
    file.close()?;
    // end
    let file = ObjectFile::<Cell>::open(world, "memfs:container")?;
    assert_eq!(file.count()?, (0..world.size() as u64).map(|rank| 10 + rank).sum::<u64>());
    file.close()
}

fn masked(world: &Comm) -> Result<()> {
    let cells = vec![Cell { pressure: 2.0, level: world.rank() as u32 }; 6];
    let mask: String = (0..world.size()).map(|rank| if rank == world.rank() { "11" } else { "00" }).collect();
    // lines: masked
    let file = ObjectFile::create(world, "memfs:masked")?;
    file.set_view(&ObjectView::mask(&mask)?)?;
    file.at_pointer().all().write(&cells)?;
    file.close()?;
    // end
    let file = ObjectFile::<Cell>::open(world, "memfs:masked")?;
    assert_eq!(file.at(2 * world.rank() as u64).read_vec(2)?, cells[..2]);
    file.close()
}

fn round_robin(world: &Comm) -> Result<()> {
    let cells = vec![Cell { pressure: 3.0, level: world.rank() as u32 }; 100];
    // lines: round robin
    let file = ObjectFile::create(world, "memfs:round-robin")?;
    file.set_view(&ObjectView::round_robin(world))?;
    file.at_pointer().all().write(&cells)?;
    file.close()?;
    // end
    let file = ObjectFile::<Cell>::open(world, "memfs:round-robin")?;
    let levels = file.field::<u32>("level")?.all().read(0..100 * world.size() as u64)?;
    assert!(levels.iter().enumerate().all(|(at, level)| *level as usize == at % world.size()));
    file.close()
}

fn particles(world: &Comm) -> Result<()> {
    let particle = |id: u64| Particle {
        id,
        trace: vec![[0.5; 3]; id as usize % 5],
        neighbours: vec![7; id as usize % 3],
    };
    let first = 50 * world.rank() as u64;
    let mine: Vec<Particle> = (first..first + 50).map(particle).collect();
    // lines: particles
    let file = ObjectFile::create(world, "memfs:particles")?;
    file.shared().all().write(&mine)?;
    file.close()?;
    let file = ObjectFile::<Particle>::open(world, "memfs:particles")?;
    let seventh = file.at(7).read_vec(1)?;
    file.close()?;
    // end
    assert_eq!(seventh, [particle(7)]);
    Ok(())
}

fn main() -> std::result::Result<(), aqueduct::Error> {
    Launch::threads(3).run(|world| {
        single(world)?;
        container(world)?;
        masked(world)?;
        round_robin(world)?;
        particles(world)
    })?;
    println!("all five read back what they wrote");
    Ok(())
}

#[cfg(test)]
mod tests {
    /// The lines between the marks, per task: at most ten.
    #[test]
    fn each_task_takes_at_most_ten_lines() {
        let source = include_str!("objects.rs");
        let tasks: Vec<&str> = source.split("// lines: ").skip(1).take(5).collect();
        assert_eq!(tasks.len(), 5);
        for task in tasks {
            let lines =
                task.split("// end").next().unwrap().lines().skip(1).filter(|line| !line.trim().is_empty());
            assert!(lines.count() <= 10, "{task}");
        }
    }

    #[test]
    fn all_of_them_work() {
        super::main().unwrap();
    }
}
