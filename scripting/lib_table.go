package scripting

import "codeq/scripting/lua"

func (st *state) tableLibrary() map[string]lua.GoFunc {
	return map[string]lua.GoFunc{
		"concat":   st.tableConcat,
		"foreach":  st.tableForeach,
		"foreachi": st.tableForeachi,
		"getn":     func(L *lua.Thread) int { return pushNumber(L, float64(checkTable(L, 1).Len())) },
		"insert":   st.tableInsert,
		"maxn":     st.tableMaxn,
		"remove":   st.tableRemove,
		"setn": func(L *lua.Thread) int {
			checkTable(L, 1)
			L.Raise("'setn' is obsolete")
			return 0
		},
		"sort": st.tableSort,
	}
}

func (st *state) tableConcat(L *lua.Thread) int {
	separator := optString(L, 2, "")
	t := checkTable(L, 1)
	from, to := optInt(L, 3, 1), 0
	if L.Arg(4).IsNil() {
		to = t.Len()
	} else {
		to = checkInt(L, 4)
	}
	out := st.newOutput(L)
	for i := from; i <= to; i++ {
		st.work(L, 1)
		v := t.GetInt(i)
		if n, ok := v.Float(); ok {
			out.buf = lua.AppendNumber(out.buf, n, lua.TextDigits)
		} else if text, ok := v.Text(); ok {
			out.room(len(text) + len(separator))
			out.buf = append(out.buf, text...)
		} else {
			L.Raise("invalid value (%s) at index %d in table for 'concat'", v.Kind(), i)
		}
		if i < to {
			out.buf = append(out.buf, separator...)
		}
		out.check()
	}
	return out.push()
}

func (st *state) tableForeach(L *lua.Thread) int {
	t, fn := checkTable(L, 1), checkFunction(L, 2)
	k, v, ok := t.Next(lua.Nil)
	for ok && !k.IsNil() {
		st.work(L, 1)
		if visit(L, fn, k, v) {
			return 1
		}
		k, v, ok = t.Next(k)
	}
	if !ok {
		L.Throw(lua.String(lostKeyText))
	}
	return 0
}

// lostKeyText is thrown if a loop's key is no longer in the table; it carries no position, as in Redis.
const lostKeyText = "invalid key to 'next'"

func (st *state) tableForeachi(L *lua.Thread) int {
	t, fn := checkTable(L, 1), checkFunction(L, 2)
	n := t.Len()
	for i := 1; i <= n; i++ {
		st.work(L, 1)
		if visit(L, fn, lua.Number(float64(i)), t.GetInt(i)) {
			return 1
		}
	}
	return 0
}

// visit calls fn and leaves its answer on the stack, if it gives one.
func visit(L *lua.Thread, fn *lua.Function, k, v lua.Value) bool {
	L.Push(fn.Value())
	L.Push(k)
	L.Push(v)
	L.Call(2, 1)
	if !L.Arg(-1).IsNil() {
		return true
	}
	L.Pop()
	return false
}

// tableInsert moves what is at the position and beyond it up. The position may be before the first element, too, and then all that lies
// between is moved.
func (st *state) tableInsert(L *lua.Thread) int {
	t := checkTable(L, 1)
	end := t.Len() + 1
	position := end
	switch L.Top() {
	case 2:
	case 3:
		position = checkInt(L, 2)
	default:
		L.Raise("wrong number of arguments to 'insert'")
	}
	writable(L, t)
	if position < end {
		t.SetInt(end, t.GetInt(end-1)) // which makes room
		end--
		if t.Move(position, position+1, end-position) {
			st.work(L, (end-position)/movedPerStep)
			end = position
		}
	}
	for ; end > position; end-- {
		st.work(L, 1)
		t.SetInt(end, t.GetInt(end-1))
	}
	t.SetInt(position, L.Arg(-1))
	return 0
}

// movedPerStep is how many elements moved count as much as an instruction.
const movedPerStep = 16

func (st *state) tableRemove(L *lua.Thread) int {
	t := checkTable(L, 1)
	end := t.Len()
	position := optInt(L, 2, end)
	if position < 1 || position > end {
		return 0
	}
	writable(L, t)
	L.Push(t.GetInt(position))
	if t.Move(position+1, position, end-position) {
		st.work(L, (end-position)/movedPerStep)
		position = end
	}
	for ; position < end; position++ {
		st.work(L, 1)
		t.SetInt(position, t.GetInt(position+1))
	}
	t.SetInt(end, lua.Nil)
	return 1
}

func (st *state) tableMaxn(L *lua.Thread) int {
	t := checkTable(L, 1)
	most := 0.0
	for k, _, _ := t.Next(lua.Nil); !k.IsNil(); k, _, _ = t.Next(k) {
		st.work(L, 1)
		if n, ok := k.Float(); ok && n > most {
			most = n
		}
	}
	return pushNumber(L, most)
}

// sorter sorts elements of a table in place, comparing as `<` or by a function. It makes the comparisons and exchanges of the
// reference implementation's quicksort, since scripts see them: in the order of elements that are equal, and in what an
// order function is called with, or finds in the table.
type sorter struct {
	st *state
	L  *lua.Thread
	t  *lua.Table
	fn lua.Value
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
		pivot := s.t.GetInt(middle)
		s.put(middle, s.t.GetInt(high-1), high-1, pivot)
		middle = s.part(low, high, pivot)
		s.put(middle, s.t.GetInt(high-1), high-1, s.t.GetInt(middle))
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
func (s *sorter) part(low, high int, pivot lua.Value) int {
	i, j := low, high-1
	for {
		i++
		atI := s.t.GetInt(i)
		for s.less(atI, pivot) {
			if i > high {
				s.L.Raise("invalid order function for sorting")
			}
			i++
			atI = s.t.GetInt(i)
		}
		j--
		atJ := s.t.GetInt(j)
		for s.less(pivot, atJ) {
			if j < low {
				s.L.Raise("invalid order function for sorting")
			}
			j--
			atJ = s.t.GetInt(j)
		}
		if j < i {
			return i
		}
		s.put(i, atJ, j, atI)
	}
}

// put sets two elements.
func (s *sorter) put(i int, atI lua.Value, j int, atJ lua.Value) {
	writable(s.L, s.t)
	s.t.SetInt(i, atI)
	s.t.SetInt(j, atJ)
}

func (s *sorter) exchangeIfLess(i, j int) bool {
	atI, atJ := s.t.GetInt(i), s.t.GetInt(j)
	less := s.less(atI, atJ)
	if less {
		s.put(i, atJ, j, atI)
	}
	return less
}

func (s *sorter) less(a, b lua.Value) bool {
	s.st.work(s.L, 1)
	if s.fn.IsNil() {
		return s.L.Less(a, b)
	}
	s.L.Push(s.fn)
	s.L.Push(a)
	s.L.Push(b)
	s.L.Call(2, 1)
	return s.L.Pop().Truth()
}

func (st *state) tableSort(L *lua.Thread) int {
	t := checkTable(L, 1)
	n := t.Len()
	if !L.Arg(2).IsNil() {
		checkFunction(L, 2)
	}
	s := sorter{st, L, t, L.Arg(2)}
	s.sort(1, n)
	return 0
}
