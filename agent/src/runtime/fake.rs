//! An engine in memory, for the simulation (to come).
