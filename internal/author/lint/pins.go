package lint

import (
	"errors"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
)

// pins reports the defects of the lock.
func (l *linter) pins() {
	_, err := l.pak.Lock()
	var defects diag.Errors
	if errors.As(err, &defects) {
		for _, defect := range defects {
			l.diags.Add(defect)
		}
	} else if err != nil {
		l.diags.Errorf(diag.Pos{File: l.pak.Display(brokerpak.LockName), Line: 1}, "lock", "%s", err)
	}
}
