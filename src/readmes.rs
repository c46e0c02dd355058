//! The examples of the crates' README files, compiled and run as documentation tests.

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

#[doc = include_str!("../crates/format/README.md")]
struct AqueductFormatReadme;

#[doc = include_str!("../crates/stage/README.md")]
struct AqueductStageReadme;

#[doc = include_str!("../crates/checkpoint/README.md")]
struct AqueductCheckpointReadme;
