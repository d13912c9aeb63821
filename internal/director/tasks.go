package director

import (
	"context"
	"fmt"
)

// A Task is work of the Director, such as a deployment or an errand. It consists of the id and the state of the task,
// such as "processing", and the name of the deployment that the task concerns, which is "" for other tasks.
type Task struct {
	ID    int    `json:"id"`
	State string `json:"state"`
	// Deployment is the name of the deployment that the task concerns; "" for a task that concerns none.
	Deployment string `json:"deployment"`
}

// RunningTasks returns the tasks that the Director has accepted and not finished, in the Director's order: they are
// queued, processing or cancelling. For a client that administers teams, the Director lists only the tasks of these
// teams. The result is empty and not nil if there are none. RunningTasks returns nil and an error, one sentence without
// secrets, if the client may not list tasks, if the login or the request fails, also because ctx ends, or if the answer
// is not a list.
func (c *Client) RunningTasks(ctx context.Context) ([]Task, error) {
	var listed []Task
	// verbose=2 includes the tasks that `bosh tasks` hides, such as those that read the state of VMs.
	const running = "/tasks?state=queued,processing,cancelling&verbose=2"
	if err := c.get(ctx, running, "its running tasks", &listed); err != nil {
		return nil, err
	}
	if listed == nil {
		return nil, fmt.Errorf("asking the Director %s for its running tasks: the answer is not a list", c.address)
	}
	return listed, nil
}
