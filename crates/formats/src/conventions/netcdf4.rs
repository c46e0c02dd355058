//! netCDF-4: variables with named dimensions in HDF5, as `ncdump`, xarray and the netCDF library read them.
//!
//! A dimension is a dimension scale of HDF5: its coordinate variable, or a dataset without values. Variables refer to the scales of their dimensions
//! (`DIMENSION_LIST`), and scales to the variables that use them (`REFERENCE_LIST`). One dimension may be a record dimension (`UNLIMITED`).
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_formats::hdf5::{Hdf5Compression, Hdf5DatasetOptions};
//! use aqueduct_formats::netcdf4::Netcdf4File;
//!
//! Launch::threads(2).run(|world| {
//!     let mut file = Netcdf4File::create(world, "memfs:field.nc")?;
//!     let (time, temperature) = file.define(|file| {
//!         let [time, x] = [file.record_dimension("time")?, file.dimension("x", 6)?];
//!         let times = file.variable::<f64>("time", &[time], &Hdf5DatasetOptions::new())?;
//!         let packed = Hdf5DatasetOptions::new().compress(Hdf5Compression::default()).fill_value(&-999.0f32);
//!         let temperature = file.variable::<f32>("temperature", &[time, x], &packed)?;
//!         file.attribute("time", "units", "seconds since 2000-01-01")?;
//!         file.attribute("temperature", "units", "K")?;
//!         Ok((times, temperature))
//!     })?;
//!     let x = 3 * world.rank() as u64;
//!     for record in 0..4 {
//!         file.extend(record + 1)?;
//!         let (seconds, values) = ([60.0 * record as f64], [280.0f32; 3]);
//!         let mut queue = file.hdf5().queue();
//!         queue.put(temperature, [record..record + 1, x..x + 3], &values);
//!         if world.rank() == 0 {
//!             queue.put(time, record..record + 1, &seconds);
//!         }
//!         queue.run_all()?;
//!         file.commit()?;
//!     }
//!     file.close()
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```

mod definitions;

use std::ffi::OsStr;

use aqueduct_comm::Comm;

pub use definitions::{Netcdf4Definitions, Netcdf4Dimension};
use definitions::{SCALE, ScaleState};

use crate::error::{Error, Kind, Result};
use crate::hdf5::{DatasetId, Hdf5Attribute, Hdf5CreateOptions, Hdf5File, Hdf5OpenOptions};

/// A netCDF-4 file that is being written by all ranks.
#[derive(Debug)]
pub struct Netcdf4File {
    file: Hdf5File,
    scales: Vec<ScaleState>,
    records: u64,
}

impl Netcdf4File {
    /// Creates a file. One that exists is refused: [`replace`](Self::replace) replaces it. Collective.
    pub fn create(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        Self::prepare(Hdf5CreateOptions::new().create(comm, name)?)
    }

    /// Creates a file in place of the one of this name, if there is one. Collective.
    pub fn replace(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        Self::prepare(Hdf5CreateOptions::new().replace().create(comm, name)?)
    }

    fn prepare(mut file: Hdf5File) -> Result<Self> {
        let properties = concat!("version=2,aqueduct=", env!("CARGO_PKG_VERSION"));
        file.define(|file| file.attribute("/", "_NCProperties", Hdf5Attribute::fixed(properties)))?;
        Ok(Self { file, scales: Vec::new(), records: 0 })
    }

    /// Opens a file of this library to append records. Collective.
    pub fn open(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        let file = Hdf5OpenOptions::new().writable().open(comm, name)?;
        let mut scales = Vec::new();
        for (path, object) in file.tree() {
            let text = |name: &str| object.attribute(name).and_then(Hdf5Attribute::text);
            let Some(dataset) = object.dataset.as_ref().filter(|_| text("CLASS") == Some(SCALE)) else {
                continue;
            };
            let number = object.attribute("_Netcdf4Dimid").and_then(Hdf5Attribute::numbers);
            let (Some([number]), [length]) = (number.as_deref(), &dataset.shape[..]) else {
                let detail = format!(
                    "the dimension scale {path:?} is of another library; copy the file with `nccopy`"
                );
                return Err(Error::new(Kind::Unsupported, "open", file.name(), detail));
            };
            let uses = match object.attribute("REFERENCE_LIST") {
                Some(Hdf5Attribute::ScaleUses(uses)) => uses.clone(),
                _ => Vec::new(),
            };
            let (is_record, stored_uses) = (dataset.extendible, uses.len());
            let scale = ScaleState {
                path: path.clone(),
                length: *length,
                is_record,
                is_stored: true,
                uses,
                stored_uses,
            };
            scales.push((*number as u64, scale));
        }
        scales.sort_by_key(|(number, _)| *number);
        let scales: Vec<ScaleState> = scales.into_iter().map(|(_, scale)| scale).collect();
        let records = scales.iter().find(|scale| scale.is_record).map_or(0, |scale| scale.length);
        Ok(Self { file, scales, records })
    }

    /// Defines dimensions, variables and attributes: all of them or none, at any time, the same on all ranks. A coordinate variable is defined together with
    /// its dimension. Collective.
    pub fn define<R>(
        &mut self,
        define: impl FnOnce(&mut Netcdf4Definitions<'_, '_>) -> Result<R>,
    ) -> Result<R> {
        let (mut scales, records, name) = (self.scales.clone(), self.records, self.file.name().to_owned());
        let result = self.file.define(|file| {
            let mut definitions =
                Netcdf4Definitions { name: &name, file, scales: &mut scales, records, lists: Vec::new() };
            let result = define(&mut definitions)?;
            definitions.finish()?;
            Ok(result)
        })?;
        self.scales = scales;
        Ok(result)
    }

    /// Gives the record dimension so many records in all: every variable that has it is extended. Collective.
    pub fn extend(&mut self, records: u64) -> Result<()> {
        let Some(number) = self.scales.iter().position(|scale| scale.is_record) else {
            let detail = "there is no record dimension; define one with `record_dimension`";
            return Err(Error::new(Kind::BadArgument, "extend", self.file.name(), detail));
        };
        let scale = &self.scales[number];
        let users = scale.uses.iter().filter(|(_, dimension)| *dimension == 0).map(|(path, _)| path);
        let paths = users.chain([&scale.path]);
        let growing = paths.map(|path| self.file.dataset(path)).collect::<Result<Vec<DatasetId>>>()?;
        self.file.define(|file| growing.into_iter().try_for_each(|dataset| file.extend(dataset, records)))?;
        self.records = records;
        self.scales[number].length = records;
        Ok(())
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The variable of this name.
    pub fn variable(&self, name: &str) -> Result<DatasetId> {
        self.file.dataset(name)
    }

    /// The file as HDF5: variables are its datasets, which are written and read by its methods.
    pub fn hdf5(&self) -> &Hdf5File {
        &self.file
    }

    /// As [`Hdf5File::commit`]. Collective.
    pub fn commit(&mut self) -> Result<()> {
        self.file.commit()
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        self.file.close()
    }
}
