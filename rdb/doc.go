// Package rdb reads and writes the serialization that Redis has for one value: what DUMP replies and RESTORE takes. Libraries of
// functions, which FUNCTION DUMP replies, have the same wrapping.
//
// It reads every encoding that Redis 7.2 and older versions have written, and writes those that Redis 7.0 chooses under
// its default settings, so that a payload looks the same whichever server it comes from. Its input comes from clients, so
// nothing about it is trusted: every length is held against what is there, and what a value may take in memory is limited.
//
// It must not know commands, transactions or how values are stored. It starts no goroutines and has no locks.
//
// # A payload
//
//	type u8 · the value, as its type says · version u16 · CRC64 of all before u64
//
// Numbers of fixed size are little-endian unless said otherwise. A length has its size in its top bits:
//
//	00xxxxxx              6 bits
//	01xxxxxx xxxxxxxx     14 bits, big-endian
//	10000000 x4           32 bits, big-endian
//	10000001 x8           64 bits, big-endian
//	11xxxxxx              no length: a string in another form, see reader.str
//
// # Where things are
//
//	value.go      Value, its limits, the errors
//	decode.go     payload → Value; encode.go: Value → payload
//	functions.go  libraries of functions, in both directions
//	stream.go     streams, which are more involved, in both directions
//	listpack.go   the compact form of current versions: reading and writing
//	compact.go    the compact forms that are read only, or simple: ziplist, zipmap, intset
//	lzf.go, crc64.go
package rdb
