//! Pictures and VTKHDF files, checked with other readers.

use std::fs;

use aqueduct_testkit::external_tools;

use crate::{JET, files, succeeds};

#[test]
fn pictures_show_the_jet() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), "frame");
    let options = ["--steps", "20", "--pictures", "10", "--prefix", &files.prefix];
    succeeds(2, &[&JET[..], &options].concat());
    let mut diesel = Vec::new();
    for step in [0, 10, 20] {
        let decoder =
            png::Decoder::new(std::io::BufReader::new(fs::File::open(files.picture(step)).unwrap()));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!(info.width, 960);
        let orange = |pixel: &&[u8]| pixel[0] > 150 && pixel[0] / 2 > pixel[2];
        diesel.push(pixels.chunks_exact(3).filter(orange).count());
    }
    assert!(diesel[0] > 0 && diesel[2] > diesel[0], "pixels of diesel: {diesel:?}");
}

#[test]
fn vtk_reads_the_particles_of_every_step() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), "jet");
    let options =
        ["--steps", "20", "--every", "10", "--vtk", "10", "--output", "together", "--prefix", &files.prefix];
    succeeds(3, &[&JET[..], &options].concat());
    let name = format!("{}-000000.vtkhdf", files.prefix);
    let Some(text) = external_tools::run_with("vtk", "read_vtkhdf.py", &[&name]) else { return };
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "{text}");
    for (line, step) in lines.iter().zip([0, 10, 20]) {
        let header = files.read_header(step).unwrap();
        let rows = crate::stored(&files, step, 1);
        let (scalars, shown) = (header.quantities.scalars.len(), |row: &&Vec<u64>| row[1] != 2);
        let rows: Vec<&Vec<u64>> = rows.iter().filter(shown).collect();
        assert_eq!(line["points"], rows.len(), "step {step}: {line}");
        assert_eq!((line["time"].as_f64(), &line["vertices"]), (Some(header.state.time), &line["points"]));
        let sum = |at: usize| rows.iter().map(|row| f64::from_bits(row[at])).sum::<f64>();
        let close = |key: &str, expected: f64| {
            let found = line[key].as_f64().unwrap();
            assert!(
                (found - expected).abs() < 1e-9 * expected.abs().max(1.0),
                "step {step}: {key} {found}, {expected}"
            );
        };
        close("x", sum(2 + scalars));
        close("density", sum(2 + aqueduct_sph::quantity::scalar::DENSITY));
        close("velocity", sum(2 + scalars + 3));
        close("id", rows.iter().map(|row| row[0] as f64).sum());
        close("fluid", rows.iter().map(|row| row[1] as f64).sum());
        assert_eq!(line["connectivity"], rows.len());
    }
}
