package codeqclient

import (
	"encoding/json"
	"fmt"
	"time"
)

// Status is a task's state as its JSON names it.
type Status string

// The states of a task.
const (
	Pending    Status = "PENDING"
	InProgress Status = "IN_PROGRESS"
	Completed  Status = "COMPLETED"
	Failed     Status = "FAILED"
)

// The values of lastKnownLocation.
const (
	atPending  = "PENDING_LIST"
	atDelayed  = "DELAYED_ZSET"
	atInProg   = "INPROG_SET"
	atDLQ      = "DLQ_SET"
	atNowhere  = "NONE"
	leaseStamp = time.RFC3339
)

// Task is codeQ's task. The order of the fields is the order in its JSON.
type Task struct {
	ID                string    `json:"id"`
	Command           string    `json:"command"`
	Payload           string    `json:"payload"`
	Priority          int       `json:"priority,omitempty"`
	Webhook           string    `json:"webhook,omitempty"`
	TraceParent       string    `json:"traceParent,omitempty"`
	TraceState        string    `json:"traceState,omitempty"`
	Status            Status    `json:"status"`
	LastKnownLocation string    `json:"lastKnownLocation,omitempty"`
	WorkerID          string    `json:"workerId,omitempty"`
	LeaseUntil        string    `json:"leaseUntil,omitempty"`
	Attempts          int       `json:"attempts,omitempty"`
	MaxAttempts       int       `json:"maxAttempts,omitempty"`
	Error             string    `json:"error,omitempty"`
	ResultKey         string    `json:"resultKey,omitempty"`
	TenantID          string    `json:"tenantId,omitempty"`
	CreatedAt         time.Time `json:"createdAt"`
	UpdatedAt         time.Time `json:"updatedAt"`
}

// Result is what a worker submits. The order of the fields is the order in its JSON.
type Result struct {
	TaskID      string          `json:"taskId"`
	Status      Status          `json:"status"`
	Result      json.RawMessage `json:"result,omitempty"`
	Error       string          `json:"error,omitempty"`
	Artifacts   []string        `json:"artifacts,omitempty"`
	CompletedAt time.Time       `json:"completedAt"`
}

// Ended reports whether nothing more happens to the task.
func (t *Task) Ended() bool { return t.Status == Completed || t.Status == Failed }

func (t *Task) encode() string { return mustJSON(t) }

// mustJSON encodes a value whose type always can be; an error is a mistake in this package.
func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(text)
}

func decodeTask(text string) (Task, error) {
	var t Task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return Task{}, fmt.Errorf("task JSON %q: %w", text, err)
	}
	return t, nil
}
