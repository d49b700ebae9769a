package scripting

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func (st *state) tableLibrary() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"concat":   st.tableConcat,
		"foreach":  st.tableForeach,
		"foreachi": st.tableForeachi,
		"getn": func(L *lua.LState) int {
			L.Push(lua.LNumber(st.view(checkTable(L, 1)).Len()))
			return 1
		},
		"insert": st.tableInsert,
		"maxn":   st.tableMaxn,
		"remove": st.tableRemove,
		"setn": func(L *lua.LState) int {
			checkTable(L, 1)
			raise(L, "'setn' is obsolete")
			return 0
		},
		"sort": st.tableSort,
	}
}

func (st *state) tableConcat(L *lua.LState) int {
	t := st.view(checkTable(L, 1))
	separator := optString(L, 2, "")
	from := optInt(L, 3, 1)
	to := t.Len()
	if L.Get(4) != lua.LNil {
		to = checkInt(L, 4)
	}
	var out strings.Builder
	for i := from; i <= to; i++ {
		v := t.RawGetInt(i)
		text, ok := toText(v)
		if !ok {
			raise(L, "invalid value (%s) at index %d in table for 'concat'", typeName(v), i)
		}
		added := len(text) + len(separator)
		st.grow(L, out.Len()+added, 1+bytesPerStep+added) // an element is a step at least
		out.WriteString(text)
		if i < to {
			out.WriteString(separator)
		}
	}
	L.Push(lua.LString(out.String()))
	return 1
}

func (st *state) tableForeach(L *lua.LState) int {
	t := st.view(checkTable(L, 1))
	fn := checkFunction(L, 2)
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		if st.visit(L, fn, k, v) {
			return 1
		}
	}
	return 0
}

func (st *state) tableForeachi(L *lua.LState) int {
	t := st.view(checkTable(L, 1))
	fn := checkFunction(L, 2)
	n := t.Len()
	for i := 1; i <= n; i++ {
		if st.visit(L, fn, lua.LNumber(i), t.RawGetInt(i)) {
			return 1
		}
	}
	return 0
}

// visit calls fn and leaves its answer on the stack, if it gives one.
func (st *state) visit(L *lua.LState, fn *lua.LFunction, k, v lua.LValue) bool {
	L.Push(fn)
	L.Push(k)
	L.Push(v)
	L.Call(2, 1)
	if L.Get(-1) != lua.LNil {
		return true
	}
	L.Pop(1)
	return false
}

func (st *state) tableInsert(L *lua.LState) int {
	t := st.writable(L, checkTable(L, 1))
	n := t.Len() + 1
	if n >= maxArrayIndex {
		raise(L, "table overflow")
	}
	switch L.GetTop() {
	case 2:
		t.RawSetInt(n, L.Get(2))
	case 3:
		position := checkInt(L, 2)
		if position >= 1 && position < n {
			st.work(L, (n-position)/64)
			t.Insert(position, L.Get(3))
		} else {
			t.RawSet(lua.LNumber(position), L.Get(3))
		}
	default:
		raise(L, "wrong number of arguments to 'insert'")
	}
	return 0
}

func (st *state) tableRemove(L *lua.LState) int {
	t := checkTable(L, 1) // a facade is empty: nothing to remove
	n := t.Len()
	position := optInt(L, 2, n)
	if position < 1 || position > n {
		return 0
	}
	st.work(L, (n-position)/64)
	v := t.RawGetInt(position)
	t.Remove(position)
	L.Push(v)
	return 1
}

func (st *state) tableMaxn(L *lua.LState) int {
	t := st.view(checkTable(L, 1))
	most := 0.0
	for k, _ := t.Next(lua.LNil); k != lua.LNil; k, _ = t.Next(k) {
		if n, ok := k.(lua.LNumber); ok && float64(n) > most {
			most = float64(n)
		}
	}
	L.Push(lua.LNumber(most))
	return 1
}

// sorter sorts elements of a table in place, comparing as `<` or by a function. It makes the comparisons and exchanges of the
// reference implementation's quicksort, since scripts see them: in the order of elements that are equal, and in what an
// order function is called with.
type sorter struct {
	st *state
	L  *lua.LState
	t  *lua.LTable
	fn lua.LValue
}

// sort sorts the elements low to high: the pivot is the middle one of three, which ends up at the last place but one while
// the others are parted. The smaller part is sorted first, so the depth is logarithmic.
func (s *sorter) sort(low, high int) {
	for low < high {
		s.exchangeIfLess(high, low)
		if high-low == 1 {
			return
		}
		middle := (low + high) / 2
		if !s.exchangeIfLess(middle, low) {
			s.exchangeIfLess(high, middle)
		}
		if high-low == 2 {
			return
		}
		pivot := s.t.RawGetInt(middle)
		s.exchange(middle, high-1)
		middle = s.part(low, high, pivot)
		s.exchange(high-1, middle)
		if middle-low < high-middle {
			s.sort(low, middle-1)
			low = middle + 1
		} else {
			s.sort(middle+1, high)
			high = middle - 1
		}
	}
}

// part puts what is less than the pivot before what is not, and answers where the latter begins.
func (s *sorter) part(low, high int, pivot lua.LValue) int {
	i, j := low, high-1
	for {
		for i++; s.less(s.t.RawGetInt(i), pivot); i++ {
			if i > high {
				raise(s.L, "invalid order function for sorting")
			}
		}
		for j--; s.less(pivot, s.t.RawGetInt(j)); j-- {
			if j < low {
				raise(s.L, "invalid order function for sorting")
			}
		}
		if j < i {
			return i
		}
		s.exchange(i, j)
	}
}

func (s *sorter) exchange(i, j int) {
	a, b := s.t.RawGetInt(i), s.t.RawGetInt(j)
	s.t.RawSetInt(i, b)
	s.t.RawSetInt(j, a)
}

func (s *sorter) exchangeIfLess(i, j int) bool {
	less := s.less(s.t.RawGetInt(i), s.t.RawGetInt(j))
	if less {
		s.exchange(i, j)
	}
	return less
}

func (s *sorter) less(a, b lua.LValue) bool {
	s.st.work(s.L, 1)
	if s.fn == lua.LNil {
		return s.natural(a, b)
	}
	callMethod(s.L, s.fn, a, b)
	less := lua.LVAsBool(s.L.Get(-1))
	s.L.Pop(1)
	return less
}

func (s *sorter) natural(a, b lua.LValue) bool {
	switch x := a.(type) {
	case lua.LNumber:
		if y, ok := b.(lua.LNumber); ok {
			return x < y
		}
	case lua.LString:
		if y, ok := b.(lua.LString); ok {
			return x < y
		}
	case *lua.LTable:
		if y, ok := b.(*lua.LTable); ok {
			method := s.L.GetMetaField(x, "__lt")
			if method != lua.LNil && method == s.L.GetMetaField(y, "__lt") {
				return s.L.LessThan(a, b)
			}
		}
	}
	throw(s.L, lua.LString(orderText(a, b)))
	return false
}

func (st *state) tableSort(L *lua.LState) int {
	t := checkTable(L, 1) // a facade is empty: nothing to sort
	if L.Get(2) != lua.LNil {
		checkFunction(L, 2)
	}
	s := sorter{st, L, t, L.Get(2)}
	s.sort(1, t.Len())
	return 0
}
