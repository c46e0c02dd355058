//! Neighbour lists: for each particle of a rank those within a radius, in the order of cells and ids, which is the same for every
//! decomposition.

use aqueduct_decomposition::cell_box::CellBox;

/// The neighbours of the particles of a rank. Indices from the number of own particles on are ghosts.
#[derive(Debug, Default)]
pub struct NeighbourList {
    starts: Vec<usize>,
    partners: Vec<u32>,
}

impl NeighbourList {
    /// The particles within `radius` of each own particle, without itself. Own particles are sorted by cell and id, with the first index of
    /// each cell of the box in `starts`; ghosts follow in `positions`, with their cells in the grown box in `ghost_cells`.
    pub fn new(
        cell_box: &CellBox,
        starts: &[usize],
        positions: &[[f64; 3]],
        ghost_cells: &[usize],
        radius: f64,
    ) -> Self {
        let around = cell_box.grown();
        let own = positions.len() - ghost_cells.len();
        let cells = CellMembers::new(cell_box, &around, starts, own, ghost_cells);
        // Positions in the order of the cells, so that a row of cells is one range of memory.
        let there: Vec<[f64; 3]> = cells.members.iter().map(|at| positions[*at as usize]).collect();
        let mut list = Self { starts: Vec::with_capacity(own + 1), partners: Vec::new() };
        list.starts.push(0);
        let square = radius * radius;
        for cell in cell_box.iter() {
            let place = cell_box.index(cell);
            let rows: [std::ops::Range<usize>; 9] = std::array::from_fn(|row| {
                let (dy, dz) = (row as i64 % 3 - 1, row as i64 / 3 - 1);
                let first = around.index([cell[0] - 1, cell[1] + dy, cell[2] + dz]);
                cells.starts[first]..cells.starts[first + 3]
            });
            let members = starts[place]..starts[place + 1];
            for (at, here) in members.clone().zip(&positions[members]) {
                for row in &rows {
                    for slot in row.clone() {
                        let other = cells.members[slot];
                        if distance_square(*here, there[slot]) < square && other as usize != at {
                            list.partners.push(other);
                        }
                    }
                }
                list.starts.push(list.partners.len());
            }
        }
        list
    }

    /// The neighbours of a particle.
    #[inline]
    pub fn of(&self, at: usize) -> &[u32] {
        &self.partners[self.starts[at]..self.starts[at + 1]]
    }
}

/// Own particles and ghosts by cell of the grown box.
struct CellMembers {
    starts: Vec<usize>,
    members: Vec<u32>,
}

impl CellMembers {
    fn new(cell_box: &CellBox, around: &CellBox, own_starts: &[usize], own: usize, ghosts: &[usize]) -> Self {
        let mut starts = vec![0usize; around.cells() + 1];
        let mine: Vec<(usize, std::ops::Range<usize>)> = cell_box
            .iter()
            .map(|cell| {
                let place = cell_box.index(cell);
                (around.index(cell), own_starts[place]..own_starts[place + 1])
            })
            .collect();
        mine.iter().for_each(|(cell, range)| starts[cell + 1] += range.len());
        ghosts.iter().for_each(|cell| starts[cell + 1] += 1);
        for cell in 1..starts.len() {
            starts[cell] += starts[cell - 1];
        }
        let mut next = starts.clone();
        let mut members = vec![0u32; own + ghosts.len()];
        let all = mine.into_iter().flat_map(|(cell, range)| range.map(move |at| (cell, at)));
        // Ghosts of a cell come from one rank, sorted by id.
        for (cell, at) in all.chain(ghosts.iter().enumerate().map(|(ghost, cell)| (*cell, own + ghost))) {
            members[next[cell]] = at as u32;
            next[cell] += 1;
        }
        Self { starts, members }
    }
}

/// The square of a distance.
#[inline]
pub fn distance_square(here: [f64; 3], there: [f64; 3]) -> f64 {
    let [x, y, z] = std::array::from_fn(|axis| here[axis] - there[axis]);
    x * x + y * y + z * z
}
