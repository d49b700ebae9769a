// Package config owns the server's settings: their declarations, how they are
// read, and what CONFIG GET and CONFIG SET show and change.
//
// Each setting is declared once, in settings.go: its name in Redis' style, its
// kind with limits, default, unit, whether CONFIG SET may change it, and one
// sentence about it. From the declaration follow the key in the file (the same
// name), the environment variable (CODEQ_ and the name in upper case, with
// underscores), the checks, CONFIG GET and SET, docs/configuration.md
// (WriteReference) and config.yaml.example (WriteExample). To add a setting,
// add a field to Config and a declaration; the tests tell what else is stale.
//
// Values come from the defaults, then the file, then the environment, then the
// command line; the later one counts. Whatever is not a setting, or cannot be
// honoured, is an error: no value is read and then ignored. What Redis has and
// codeq does by design is declared as a fixed setting, which shows its truthful
// value and refuses others.
//
// The package must not know who uses a setting. It reads no environment and no
// flags by itself: Load is given them. It starts no goroutines. A Config is immutable once loaded; Store
// publishes a new one for each CONFIG SET through an atomic pointer, and its
// mutex, which serialises CONFIG SETs, is the only lock.
package config
