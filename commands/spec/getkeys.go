package spec

// The commands whose keys no KeySpec describes. Each function is the GetKeys of the commands in its comment.

// SetKeys is for SET: without GET the old value is not read.
func SetKeys(dst []KeyRef, args [][]byte) []KeyRef {
	if len(args) < 3 {
		return dst
	}
	for _, arg := range args[3:] {
		if equalFold(arg, "get") {
			return append(dst, KeyRef{1, RW | Access | Update})
		}
	}
	return append(dst, KeyRef{1, OW | Update})
}

// BitfieldKeys is for BITFIELD, which only reads if all its operations are GET.
func BitfieldKeys(dst []KeyRef, args [][]byte) []KeyRef {
	if len(args) < 2 {
		return dst
	}
	for i := 2; i < len(args); i++ {
		switch {
		case equalFold(args[i], "get") && i+2 < len(args):
			i += 2
		case equalFold(args[i], "overflow") && i+1 < len(args):
			i++
		default:
			return append(dst, KeyRef{1, RW | Access | Update})
		}
	}
	return append(dst, KeyRef{1, RO | Access})
}

// SortKeys is for SORT: the list, and the destination of the last STORE. The keys that BY and GET name follow from the content.
func SortKeys(dst []KeyRef, args [][]byte) []KeyRef {
	if len(args) < 2 {
		return dst
	}
	dst = append(dst, KeyRef{1, RO | Access})
	store := 0
	for i := 2; i < len(args); i++ {
		switch {
		case equalFold(args[i], "limit"):
			i += 2
		case equalFold(args[i], "get"), equalFold(args[i], "by"):
			i++
		case equalFold(args[i], "store") && i+1 < len(args):
			i++
			store = i
		}
	}
	if store > 0 {
		dst = append(dst, KeyRef{store, OW | Update})
	}
	return dst
}

// SortReadOnlyKeys is for SORT_RO.
func SortReadOnlyKeys(dst []KeyRef, args [][]byte) []KeyRef {
	if len(args) < 2 {
		return dst
	}
	return append(dst, KeyRef{1, RO | Access})
}

// MigrateKeys is for MIGRATE: one key, or an empty string there and many behind KEYS.
func MigrateKeys(dst []KeyRef, args [][]byte) []KeyRef {
	const flags = RW | Access | Delete
	if len(args) < 4 {
		return dst
	}
	if len(args[3]) > 0 {
		return append(dst, KeyRef{3, flags})
	}
	for i := 6; i < len(args); i++ {
		switch {
		case equalFold(args[i], "keys"):
			for j := i + 1; j < len(args); j++ {
				dst = append(dst, KeyRef{j, flags})
			}
			return dst
		case equalFold(args[i], "auth"):
			i++
		case equalFold(args[i], "auth2"):
			i += 2
		}
	}
	return append(dst, KeyRef{3, flags})
}
