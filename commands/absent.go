package commands

import "codeq/commands/spec"

// Absent lists the commands of Redis 7.0 that are not declared, for docs/compatibility.md.
func Absent() []spec.Absent {
	return []spec.Absent{
		{Group: spec.Generic, Names: []string{"migrate"},
			Why: "It connects to another server while others wait; DUMP and RESTORE do the same by way of a client."},
	}
}
