package live

import "testing"

// A chunk of 200 ms at 24 kHz.
func BenchmarkDecode(b *testing.B) {
	for _, encoding := range []string{S16, F32, MuLaw} {
		b.Run(encoding, func(b *testing.B) {
			d := mustDecoder(b, encoding, 24000)
			data := make([]byte, 4800*sampleOf[encoding].size)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Push(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
