//! Files for viewers: pictures of a slice, and VTKHDF.

pub mod picture;
pub mod vtk_series;
