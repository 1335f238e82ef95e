"""How work is spread over devices: degrees and their groups, collectives over the tiers of a cluster, schedules of pipelines."""
