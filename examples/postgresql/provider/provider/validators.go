package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// textRule is a validator of texts. The description completes the sentence "the text must be …". check returns an
// error, which becomes the message of OpenTofu, if the text is invalid.
type textRule struct {
	description string
	check       func(text string) error
}

func (r textRule) Description(context.Context) string         { return r.description }
func (r textRule) MarkdownDescription(context.Context) string { return r.description }

func (r textRule) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := r.check(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, err.Error(), "")
	}
}

// oneOf returns a validator that accepts only the values.
func oneOf(values ...string) validator.String {
	description := "one of " + strings.Join(values, ", ")
	return textRule{description: description, check: func(text string) error {
		if !slices.Contains(values, text) {
			return fmt.Errorf("%q is not %s", text, description)
		}
		return nil
	}}
}

// parseTime parses a time of a configuration, such as 2030-12-31T23:59:59Z. The text "" returns the zero time.
// parseTime returns an error if the text has another format.
func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time such as 2030-12-31T23:59:59Z", text)
	}
	return parsed, nil
}

// numberRule is a validator of numbers. It accepts the numbers from least to most.
type numberRule struct{ least, most int64 }

// between returns a validator that accepts the numbers from least to most.
func between(least, most int64) validator.Int64 { return numberRule{least, most} }

func (r numberRule) Description(context.Context) string {
	return fmt.Sprintf("a number from %d to %d", r.least, r.most)
}

func (r numberRule) MarkdownDescription(ctx context.Context) string { return r.Description(ctx) }

func (r numberRule) ValidateInt64(ctx context.Context, req validator.Int64Request, resp *validator.Int64Response) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if value := req.ConfigValue.ValueInt64(); value < r.least || value > r.most {
		resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("%d is not %s", value, r.Description(ctx)), "")
	}
}
