package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// NewPassword returns a new random password of 26 upper-case letters and digits, with at least 128 bits of randomness.
func NewPassword() string { return rand.Text() }

// CheckPassword returns an error if a password is empty or contains characters other than printable ASCII characters.
// Clients and servers may normalize other characters differently before they hash the password.
func CheckPassword(password string) error {
	if password == "" {
		return errors.New("a password must not be empty")
	}
	for _, c := range []byte(password) {
		if c < ' ' || c > '~' {
			return errors.New("a password may only contain printable ASCII characters")
		}
	}
	return nil
}

// verifier returns a new SCRAM-SHA-256 secret of a password, with a random salt, in the form that PostgreSQL stores.
// The secret is sent instead of the password, because the server may write statements to its logs and statistics. It
// returns an error if the password cannot be hashed.
func verifier(password string) (string, error) {
	const (
		iterations = 4096 // the server's default
		saltLength = 16
	)
	salt := make([]byte, saltLength)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("hashing the password: %w", err)
	}
	sign := func(text string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	stored := sha256.Sum256(sign("Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s",
		iterations, encode(salt), encode(stored[:]), encode(sign("Server Key"))), nil
}
