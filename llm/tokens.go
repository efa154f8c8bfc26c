package llm

import "unicode"

// EstimateTokens returns about how many tokens text has, where nobody counts
// them: 4 characters to a token, and 1.5 for Chinese, Japanese and Korean
// writing; at least 1 for a text that is not empty. Both are rules of thumb of
// the byte-pair vocabularies in use (OpenAI's help pages give 4 for English;
// Qwen's model cards 1.5 to 1.8 for Chinese), good to about a fifth.
func EstimateTokens(text string) int {
	if text == "" {
		return 0
	}
	wide, rest := 0, 0
	for _, r := range text {
		if r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) {
			wide++
		} else {
			rest++
		}
	}
	return max(1, (wide*8+rest*3+6)/12)
}
