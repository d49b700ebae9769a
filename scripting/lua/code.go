package lua

// opcode is what an instruction does. The machine is that of Lua 5.1: registers, with the constants of a function as operands; see
// "The Implementation of Lua 5.0" (Ierusalimschy, de Figueiredo, Celes, 2005).
type opcode uint8

// The instructions. R is a register, K a constant, RK either (see instr), U an upvalue, and all that follows `if` skips the next
// instruction, which is a jump, unless it holds.
const (
	opMove      opcode = iota // R[A] = R[B]
	opLoadK                   // R[A] = K[B]
	opLoadBool                // R[A] = B != 0; skip the next if C != 0
	opLoadNil                 // R[A], …, R[B] = nil
	opGetUpval                // R[A] = U[B]
	opGetGlobal               // R[A] = globals[K[B]]
	opGetTable                // R[A] = R[B][RK[C]]
	opGetField                // R[A] = R[B][K[C]], a string
	opSetGlobal               // globals[K[B]] = R[A]
	opSetUpval                // U[B] = R[A]
	opSetTable                // R[A][RK[B]] = RK[C]
	opSetField                // R[A][K[B]] = RK[C], K[B] being a string
	opNewTable                // R[A] = {}, with room for B elements and C fields
	opSelf                    // R[A+1] = R[B]; R[A] = R[B][K[C]]
	opAdd                     // R[A] = RK[B] + RK[C]
	opSub
	opMul
	opDiv
	opMod
	opPow
	opUnm      // R[A] = -R[B]
	opNot      // R[A] = not R[B]
	opLen      // R[A] = #R[B]
	opConcat   // R[A] = R[B] .. … .. R[C]
	opJmp      // pc += B
	opEq       // if (RK[B] == RK[C]) == (A != 0)
	opLt       // if (RK[B] < RK[C]) == (A != 0)
	opLe       // if (RK[B] <= RK[C]) == (A != 0)
	opTest     // if truth of R[A] == (C != 0)
	opTestSet  // if truth of R[B] == (C != 0), and then R[A] = R[B]
	opCall     // R[A], …, R[A+C-2] = R[A](R[A+1], …, R[A+B-1]); B = 0: up to the top, C = 0: the results set the top
	opTailCall // return R[A](R[A+1], …, R[A+B-1])
	opReturn   // return R[A], …, R[A+B-2]; B = 0: up to the top
	opForLoop  // R[A] += R[A+2]; if R[A] is within the limit R[A+1], pc += B and R[A+3] = R[A]
	opForPrep  // R[A] -= R[A+2]; pc += B
	opTForLoop // R[A+3], …, R[A+2+C] = R[A](R[A+1], R[A+2]); if R[A+3] is not nil, R[A+2] = R[A+3], and the next, a jump back, is not skipped
	opSetList  // R[A][50(C-1)+i] = R[A+i] for 1 ≤ i ≤ B; B = 0: up to the top. C is in the next instruction's B if it is 0
	opClose    // closes the upvalues of R[A] and beyond
	opClosure  // R[A] = function of the prototype B; so many instructions follow as it has upvalues: opMove for R[B], opGetUpval for U[B]
	opVararg   // R[A], …, R[A+B-2] = the extra arguments; B = 0: all of them, which set the top
)

// instr is an instruction. Operands RK are a register, or rkConst plus the index of a constant.
type instr struct {
	op opcode
	a  uint8
	c  uint16
	b  int32
}

const (
	// rkConst is the first operand RK that is a constant.
	rkConst = 256
	// maxRK is the last constant that operand C can be.
	maxRK = 1<<16 - 1 - rkConst
	// maxRegisters bounds the registers of a function, as in the reference implementation.
	maxRegisters = 250
	// fieldsPerFlush is how many elements of a table constructor are set by one opSetList.
	fieldsPerFlush = 50
)

// Proto is a compiled function. It is never changed, so it may run on several threads and runtimes at once.
type Proto struct {
	source    string // the chunk's name, as messages tell it
	line      int    // where it is defined; 0 for a main chunk
	code      []instr
	lines     []int32 // of the instructions
	consts    []Value
	hashes    []uint32 // of the constants that are strings
	protos    []*Proto
	params    int
	registers int
	upvalues  []string // their names
	locals    []local  // in the order of their beginning
	vararg    bool
	needsArg  bool // its extra arguments are wanted as the table `arg`, in the register after the parameters
}

// local says where a local variable is known by its name.
type local struct {
	name       string
	start, end int32 // instructions
}
