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

// NewPassword draws a password: 26 letters and digits, more than 128 bits.
func NewPassword() string { return rand.Text() }

// CheckPassword refuses what clients and servers might prepare differently before they hash it.
func CheckPassword(password string) error {
	if password == "" {
		return errors.New("a password must not be empty")
	}
	for _, c := range []byte(password) {
		if c < ' ' || c > '~' {
			return errors.New("a password may only hold printable ASCII characters")
		}
	}
	return nil
}

// verifier is the SCRAM-SHA-256 secret of a password, as PostgreSQL stores it. It is sent in place of the password:
// statements get into logs and statistics.
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
