"""From work and rates to time: bound, composition, Amdahl."""
