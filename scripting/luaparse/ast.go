package luaparse

// The syntax tree. Names are resolved: a Name says which local variable it is, if it is one, and a Function which variables of
// functions around it it needs. Constant arithmetic is computed.
//
// A Line is where the reference implementation says that an error of the node is. Mostly it is that of the last token which it has
// consumed when it makes the node's instruction. It makes the one that reads a global variable or a field as late as it can: when it knows
// what becomes of the value, behind the operator, the comma or the closing parenthesis that follows.

// Local is a local variable.
type Local struct {
	Name     string
	Captured bool // it is an upvalue of some function
}

// Expr is an expression.
type Expr interface{ expr() }

// Stmt is a statement.
type Stmt interface{ stmt() }

// The expressions.
type (
	// Nil, True, False are constants.
	Nil   struct{}
	True  struct{}
	False struct{}
	// Numeral is a constant, a number.
	Numeral struct{ Value float64 }
	// Text is a constant, a string.
	Text struct{ Value string }
	// Vararg is `...`: all extra arguments where a list ends with it.
	Vararg struct{ Line int }
	// Name is a variable: a global one if Local is nil. One that is assigned to has the line of the assignment.
	Name struct {
		Name  string
		Local *Local
		Line  int
	}
	// Index is Object[Key]. One that is assigned to has the line of the assignment.
	Index struct {
		Object, Key Expr
		Line        int
	}
	// Call is Func(Args), or Func:Method(Args) if Method is not empty. It has all its results where a list ends with it. MethodLine is
	// where the method is looked up.
	Call struct {
		Func       Expr
		Method     string
		Args       []Expr
		Line       int
		MethodLine int
	}
	// Paren is the first value of a Call or Vararg, which is in parentheses. Around anything else parentheses leave no trace.
	Paren struct{ Inner Expr }
	// Binary is an arithmetic operator, + - * / % ^, or a comparison, == ~= < <= > >=.
	Binary struct {
		Op          Op
		Left, Right Expr
		Line        int
	}
	// Logical is `and` or `or`.
	Logical struct {
		Or          bool
		Left, Right Expr
		Line        int
	}
	// Concat is a chain of `..` operators, which associate to the right. Parentheses around the end of a chain change nothing.
	Concat struct {
		Operands []Expr
		Line     int
	}
	// Unary is - not #.
	Unary struct {
		Op      Op
		Operand Expr
		Line    int
	}
	// Table is a constructor.
	Table struct {
		Fields []Field
		Line   int
	}
	// Function is a function, or the main chunk.
	Function struct {
		Params   []*Local
		Vararg   bool
		Arg      *Local // the table `arg`, which a function has that takes `...`; nil if there is none
		NeedsArg bool   // it is to be filled: the function does not use `...` itself
		Body     []Stmt
		Upvalues []*Local // in the order of their first use, by it or a function in it
		Line     int      // that of its parenthesis, or of its statement; 0 of a main chunk
		LastLine int
	}
)

// Field is an element of a constructor; without a Key, when the Line counts for nothing, it is the next one of the list.
type Field struct {
	Key, Value Expr
	Line       int
}

// Op is an operator.
type Op uint8

// The operators.
const (
	Add Op = iota
	Sub
	Mul
	Div
	Mod
	Pow
	Eq
	Ne
	Lt
	Le
	Gt
	Ge
	Minus
	Not
	Len
)

// The statements. Line is that of their first token, unless it says otherwise.
type (
	// Assign stores values in variables; Line is that of the last token, or of the first if it is a `function` statement.
	Assign struct {
		Targets []Expr // Name and Index
		Values  []Expr
		Line    int
	}
	// Declare declares local variables.
	Declare struct {
		Locals []*Local
		Values []Expr
		Line   int
	}
	// DeclareFunction is `local function`: the variable is known in the function.
	DeclareFunction struct {
		Local    *Local
		Function *Function
		Line     int
	}
	// CallStmt is a call for its effects.
	CallStmt struct {
		Call *Call
		Line int
	}
	// Do is a block.
	Do struct{ Body []Stmt }
	// While is a loop.
	While struct {
		Condition Expr
		Body      []Stmt
		Line      int
	}
	// Repeat is a loop whose condition knows the body's variables; Line is that of `until`'s condition.
	Repeat struct {
		Body      []Stmt
		Condition Expr
		Line      int
	}
	// If has as many Thens as Conditions; Else may be nil.
	If struct {
		Conditions []Expr
		Thens      [][]Stmt
		Else       []Stmt
		HasElse    bool
		Line       int
	}
	// NumericFor is `for v = a, b, c`; Step is nil if there is none. DoLine is where the bounds are checked.
	NumericFor struct {
		Local             *Local
		Init, Limit, Step Expr
		Body              []Stmt
		Line              int
		DoLine            int
	}
	// GenericFor is `for a, b in …`. Line is where the iterator is called: that of the first token behind `in`.
	GenericFor struct {
		Locals []*Local
		Values []Expr
		Body   []Stmt
		Line   int
	}
	// Return ends the function.
	Return struct {
		Values []Expr
		Line   int
	}
	// Break ends the loop around it.
	Break struct{ Line int }
)

func (*Nil) expr()      {}
func (*True) expr()     {}
func (*False) expr()    {}
func (*Numeral) expr()  {}
func (*Text) expr()     {}
func (*Vararg) expr()   {}
func (*Name) expr()     {}
func (*Index) expr()    {}
func (*Call) expr()     {}
func (*Paren) expr()    {}
func (*Binary) expr()   {}
func (*Logical) expr()  {}
func (*Concat) expr()   {}
func (*Unary) expr()    {}
func (*Table) expr()    {}
func (*Function) expr() {}

func (*Assign) stmt()          {}
func (*Declare) stmt()         {}
func (*DeclareFunction) stmt() {}
func (*CallStmt) stmt()        {}
func (*Do) stmt()              {}
func (*While) stmt()           {}
func (*Repeat) stmt()          {}
func (*If) stmt()              {}
func (*NumericFor) stmt()      {}
func (*GenericFor) stmt()      {}
func (*Return) stmt()          {}
func (*Break) stmt()           {}
