//! The examples of the README files and guides, compiled and run as documentation tests.

#[doc = include_str!("../crates/comm/README.md")]
struct AqueductCommReadme;

#[doc = include_str!("../crates/device/README.md")]
struct AqueductDeviceReadme;

#[doc = include_str!("../crates/file/README.md")]
struct AqueductFileReadme;

#[doc = include_str!("../crates/derive/README.md")]
struct AqueductDeriveReadme;

#[doc = include_str!("../crates/object/README.md")]
struct AqueductObjectReadme;

#[doc = include_str!("../crates/formats/README.md")]
struct AqueductFormatsReadme;

#[doc = include_str!("../crates/stream/README.md")]
struct AqueductStreamReadme;

#[doc = include_str!("../crates/checkpoint/README.md")]
struct AqueductCheckpointReadme;

#[doc = include_str!("../crates/mardyn/README.md")]
struct AqueductMardynReadme;

#[doc = include_str!("../crates/report/README.md")]
struct AqueductReportReadme;

#[doc = include_str!("../README.md")]
struct AqueductReadme;

#[doc = include_str!("../docs/guide-rust.md")]
struct RustGuide;

#[doc = include_str!("../docs/guide-restart.md")]
struct RestartGuide;

#[cfg(feature = "hdf5")]
#[doc = include_str!("../docs/guide-hdf5.md")]
struct Hdf5Guide;
