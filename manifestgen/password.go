package manifestgen

import (
	"crypto/rand"
	"fmt"
	"math/big"
)

// passwordLetters need no quoting in shells, URLs and configuration files.
const passwordLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// generatePassword returns a password of letters and digits, about 5.95 bits a letter.
func generatePassword(length int) (string, error) {
	password := make([]byte, length)
	most := big.NewInt(int64(len(passwordLetters)))
	for i := range password {
		index, err := rand.Int(rand.Reader, most)
		if err != nil {
			return "", fmt.Errorf("generating a password: %w", err)
		}
		password[i] = passwordLetters[index.Int64()]
	}
	return string(password), nil
}
