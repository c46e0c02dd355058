//! Aqueduct: parallel I/O for simulation codes.
