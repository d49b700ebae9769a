package lua

import "strings"

// maxChunkID is how much of a chunk's name fits into a message.
const maxChunkID = 80

// ChunkID shortens a chunk's name for messages: "=name" and "@name" stand for themselves, anything else is source text.
func ChunkID(name string) string {
	if rest, ok := strings.CutPrefix(name, "="); ok {
		return rest[:min(len(rest), maxChunkID-1)]
	}
	if rest, ok := strings.CutPrefix(name, "@"); ok {
		const room = maxChunkID - len(" '...' ") - 1
		if len(rest) > room {
			return "..." + rest[len(rest)-room:]
		}
		return rest
	}
	const room = maxChunkID - len(" [string \"...\"] ") - 1
	n := len(name)
	if i := strings.IndexAny(name, "\n\r"); i >= 0 {
		n = i
	}
	if n > room {
		n = room
	}
	if n < len(name) {
		return "[string \"" + name[:n] + "...\"]"
	}
	return "[string \"" + name + "\"]"
}
