//! The finite mass method: forces, conservation, exact expansion, output, restart.

#[path = "cases/forces.rs"]
mod forces;
#[path = "cases/motion.rs"]
mod motion;
#[path = "cases/output.rs"]
mod output;
