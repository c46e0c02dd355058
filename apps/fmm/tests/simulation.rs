//! The finite mass method: forces, conservation, exact expansion, output, restart.

#[path = "cases/forces.rs"]
mod forces;
#[path = "cases/kill_recovery.rs"]
mod kill_recovery;
#[path = "cases/motion.rs"]
mod motion;
#[path = "cases/output.rs"]
mod output;
#[path = "cases/scaling.rs"]
mod scaling;
