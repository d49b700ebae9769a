package scripting

import (
	"container/heap"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"codeq/scripting/luaparse"
)

// Error messages name the variable that was wrong: "attempt to index local 'a' (a nil value)". The reference
// implementation finds the name by reading the byte code backwards from the failing instruction. The virtual machine
// does not say which instruction that is, but its debug interface names a called function by looking up the
// calling instruction in a list that is ours to write: numberCalls fills it with the instructions' own numbers.

// numberCalls makes a function's debug name the number of the instruction that called it.
func numberCalls(p *lua.FunctionProto) {
	p.DbgCalls = p.DbgCalls[:0]
	for pc, inst := range p.Code {
		switch opcode(inst) {
		case lua.OP_CALL, lua.OP_TAILCALL, lua.OP_TFORLOOP, lua.OP_SELF, lua.OP_GETTABLE, lua.OP_GETTABLEKS,
			lua.OP_SETTABLE, lua.OP_SETTABLEKS, lua.OP_ADD, lua.OP_SUB, lua.OP_MUL, lua.OP_DIV, lua.OP_MOD, lua.OP_POW,
			lua.OP_LEN:
			p.DbgCalls = append(p.DbgCalls, lua.DbgCall{Pc: pc, Name: strconv.Itoa(pc)})
		}
	}
	for _, child := range p.FunctionPrototypes {
		numberCalls(child)
	}
	endScopes(p)
	returnYields(p)
}

// returnYields makes ordinary calls of tail calls of yield. The machine cannot resume a coroutine whose own function ends with one.
// It is known by its name, as in error messages.
func returnYields(p *lua.FunctionProto) {
	for pc, inst := range p.Code {
		if opcode(inst) != lua.OP_TAILCALL {
			continue
		}
		if _, name := describeRegister(p, pc, argA(inst)); name == "yield" {
			p.Code[pc] = inst&(1<<26-1) | uint32(lua.OP_CALL)<<26 // with all results, and a return behind it, as it was compiled first
		}
	}
}

// endScopes notes where each local variable ends. The compiler takes registers for indexes when it does so, and gets it wrong
// from the first block on that has ended. Every block has a jump around it or is repeated by one, so a variable ends where the
// first such jump leads to.
func endScopes(p *lua.FunctionProto) {
	around := make([][]int, len(p.Code)+1) // the ends of the jumps around what follows each instruction
	for pc, inst := range p.Code {
		if op := opcode(inst); op != lua.OP_JMP && op != lua.OP_FORLOOP && op != lua.OP_FORPREP {
			continue
		}
		from, to := pc, pc+1+argSbx(inst)
		if to < from {
			from, to = to, from
		}
		if from >= 0 && to <= len(p.Code) {
			around[from] = append(around[from], to)
		}
	}
	var open ends
	pc := 0
	for _, local := range p.DbgLocals {
		for ; pc < local.StartPc && pc < len(around); pc++ {
			for _, end := range around[pc] {
				heap.Push(&open, end)
			}
		}
		for len(open) > 0 && open[0] <= local.StartPc {
			heap.Pop(&open)
		}
		local.EndPc = len(p.Code)
		if len(open) > 0 {
			local.EndPc = open[0]
		}
		if end := loopEnd(p, local); end > 0 {
			local.EndPc = min(local.EndPc, end)
		}
	}
}

// hiddenByLoop begins the names of the variables that hold a loop's state.
const hiddenByLoop = "(for "

// loopEnd answers where the loop ends whose state a hidden variable holds, which is declared before it, or 0.
func loopEnd(p *lua.FunctionProto, local *lua.DbgLocalInfo) int {
	if !strings.HasPrefix(local.Name, hiddenByLoop) {
		return 0
	}
	for pc := local.StartPc; pc < len(p.Code); pc++ {
		inst := p.Code[pc]
		to := pc + 1 + argSbx(inst)
		switch opcode(inst) {
		case lua.OP_FORPREP:
			return to + 1
		case lua.OP_JMP:
			if to > pc && to < len(p.Code) && opcode(p.Code[to]) == lua.OP_TFORLOOP {
				return to + 2
			}
		}
	}
	return 0
}

// ends is a heap whose first element is the least.
type ends []int

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i] < e[j] }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(int)) }
func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// callSite answers the Lua function that called the running library function, and its calling instruction.
func callSite(L *lua.LState) (*lua.LFunction, int, bool) { return callSiteAt(L, 0) }

// callSiteAt is callSite for the function that many levels below. A function that a library function called has no
// instruction, nor has one that took the place of another by a tail call; the answer then is the caller alone, if there is one.
func callSiteAt(L *lua.LState, level int) (*lua.LFunction, int, bool) {
	callee, ok := L.GetStack(level)
	if !ok {
		return nil, 0, false
	}
	caller, ok := L.GetStack(level + 1)
	if !ok {
		return nil, 0, false
	}
	if _, err := L.GetInfo("n", callee, nil); err != nil {
		return nil, 0, false
	}
	value, err := L.GetInfo("f", caller, nil)
	if err != nil {
		return nil, 0, false
	}
	fn, ok := value.(*lua.LFunction)
	if !ok || fn.IsG {
		return fn, 0, false
	}
	pc, err := strconv.Atoi(callee.Name)
	if err != nil || pc >= len(fn.Proto.Code) {
		return fn, 0, false
	}
	return fn, pc, true
}

// variable answers "local 'a' (a nil value)" for the operand of the running operator, or "a nil value" when it has no name.
func variable(fn *lua.LFunction, pc, operand int, v lua.LValue) string {
	text := "a " + typeName(v) + " value"
	if fn == nil || operand >= 256 {
		return text
	}
	kind, name := describeRegister(fn.Proto, pc, operand)
	if kind == "" {
		return text
	}
	return kind + " '" + name + "' (" + text + ")"
}

// The fields of an instruction, as the virtual machine packs them.
func opcode(inst uint32) int { return int(inst >> 26) }
func argA(inst uint32) int   { return int(inst>>18) & 0xff }
func argB(inst uint32) int   { return int(inst & 0x1ff) }
func argC(inst uint32) int   { return int(inst>>9) & 0x1ff }
func argBx(inst uint32) int  { return int(inst & 0x3ffff) }
func argSbx(inst uint32) int { return argBx(inst) - (1<<17 - 1) }

// describeRegister answers what a register holds at an instruction: "local", "global", "field", "upvalue" or "method", and its
// name; or nothing.
func describeRegister(p *lua.FunctionProto, pc, reg int) (kind, name string) {
	for depth := 0; depth < 8; depth++ {
		local := localName(p, pc, reg)
		if name, ok := luaparse.Global(local); ok {
			return "global", name
		}
		if local != "" && local[0] != '(' {
			return "local", local
		}
		set := lastWrite(p, pc, reg)
		if set < 0 {
			return "", ""
		}
		inst := p.Code[set]
		switch opcode(inst) {
		case lua.OP_MOVE, lua.OP_MOVEN:
			if argA(inst) != reg || argB(inst) >= reg {
				return "", ""
			}
			pc, reg = set, argB(inst)
			continue
		case lua.OP_GETGLOBAL:
			return "global", p.Constants[argBx(inst)].String()
		case lua.OP_GETUPVAL:
			if n := argB(inst); n < len(p.DbgUpvalues) {
				if name, ok := luaparse.Global(p.DbgUpvalues[n]); ok {
					return "global", name
				}
				if p.DbgUpvalues[n][0] != '(' {
					return "upvalue", p.DbgUpvalues[n]
				}
			}
		case lua.OP_GETTABLE, lua.OP_GETTABLEKS:
			return "field", constantName(p, argC(inst))
		case lua.OP_SELF:
			return "method", constantName(p, argC(inst))
		}
		return "", ""
	}
	return "", ""
}

// localName answers the local variable that lives in a register.
func localName(p *lua.FunctionProto, pc, reg int) string {
	for _, local := range p.DbgLocals {
		if local.StartPc > pc {
			break
		}
		if pc < local.EndPc {
			if reg == 0 {
				return local.Name
			}
			reg--
		}
	}
	return ""
}

func constantName(p *lua.FunctionProto, operand int) string {
	if operand >= 256 {
		if s, ok := p.Constants[operand-256].(lua.LString); ok {
			return string(s)
		}
	}
	return "?"
}

// lastWrite finds the last instruction before pc that set the register, following forward jumps, or -1.
func lastWrite(p *lua.FunctionProto, last, reg int) int {
	found := -1
	for pc := 0; pc < last; pc++ {
		inst := p.Code[pc]
		a := argA(inst)
		switch opcode(inst) {
		case lua.OP_MOVEN:
			for i := 0; i <= argC(inst); i++ {
				if argA(p.Code[pc+i]) == reg {
					found = pc + i
				}
			}
			pc += argC(inst)
		case lua.OP_LOADNIL:
			if a <= reg && reg <= argB(inst) {
				found = pc
			}
		case lua.OP_TFORLOOP:
			if reg >= a+2 {
				found = pc
			}
		case lua.OP_CALL, lua.OP_TAILCALL, lua.OP_VARARG:
			if reg >= a {
				found = pc
			}
		case lua.OP_SELF:
			if reg == a || reg == a+1 {
				found = pc
			}
		case lua.OP_JMP, lua.OP_FORLOOP, lua.OP_FORPREP:
			if to := pc + 1 + argSbx(inst); pc < to && to <= last {
				pc = to - 1
			}
		case lua.OP_CLOSURE:
			if reg == a {
				found = pc
			}
			pc += int(p.FunctionPrototypes[argBx(inst)].NumUpvalues)
		case lua.OP_SETGLOBAL, lua.OP_SETUPVAL, lua.OP_SETTABLE, lua.OP_SETTABLEKS, lua.OP_EQ, lua.OP_LT, lua.OP_LE,
			lua.OP_TEST, lua.OP_RETURN, lua.OP_SETLIST, lua.OP_CLOSE, lua.OP_NOP:
		default:
			if reg == a {
				found = pc
			}
		}
	}
	return found
}
