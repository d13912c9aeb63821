package tofu

// Open shows open to the tests.
func (c *Encryption) Open(stored []byte) (text []byte, id string, ok bool) { return c.open(stored) }

// Seal shows seal to the tests.
func (c *Encryption) Seal(text []byte) ([]byte, error) { return c.seal(text) }

// Script shows script to the tests.
func (c *Encryption) Script() []byte { return c.script() }

// Setting shows setting to the tests.
func (c *Encryption) Setting(file string) (string, error) { return c.setting(file) }

// KeyID shows keyID to the tests.
func KeyID(key []byte) string { return keyID(key) }
