#!/bin/sh
# Makes the recordings of this package. It needs Debian's flite, espeak-ng and
# pocketsphinx-testdata, and Go. The programs of Debian 12 give the same bytes
# again: flite 2.2-5, espeak-ng 1.51, pocketsphinx-testdata 0.8+5prealpha+1-15.
#
#	cd audio/corpus && ./make.sh
set -eu
data=${POCKETSPHINX_DATA:-/usr/share/pocketsphinx/test/data}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# say NAME VOICE TEXT: flite also tells where each sound ends, in seconds.
say() {
	flite -voice "$2" -psdur -o "$tmp/en-flite-$1.wav" -t "$3" >"$tmp/en-flite-$1.times"
	printf '%s' "$3" >"$tmp/en-flite-$1.txt"
}
say table slt "I would like to book a table for two people tonight at seven."
say weather rms "What is the weather going to be like in Boston tomorrow?"
say order slt "Hi, can you tell me where my order is? The number is four seven one nine."
say cancel awb "Please cancel my appointment on Friday."
say yes slt "Yes, please."
say flight rms "I want to fly to London, um, no, to Paris, next Monday."
say hours slt "What time do you open on Sunday?"
say person rms "Can I speak to a person, please?"

# The voice cmn of espeak-ng 1.51 spells some of this in English; this one does not.
shuo() {
	espeak-ng -v cmn-latn-pinyin -s 160 -w "$tmp/zh-espeak-$1.wav" "$2"
	printf '%s' "$2" >"$tmp/zh-espeak-$1.txt"
}
shuo table "我想订一张今天晚上两个人的桌子。"
shuo weather "请问明天北京的天气怎么样？"
shuo order "你好，我想查一下我的订单到哪里了。"
shuo cancel "请帮我取消星期五的预约。"
shuo yes "好的，谢谢。"
shuo train "我想去上海，嗯，不对，去杭州，下个星期一。"
shuo hours "你们星期天几点开门？"
shuo person "可以转人工客服吗？"

for n in 0870 0880 0890 0920 0930; do
	cp "$data/librivox/sense_and_sensibility_01_austen_64kb-$n.wav" "$tmp/en-librivox-$n.wav"
done
for n in 001 002 003 004 005; do
	cp "$data/cards/$n.wav" "$tmp/en-cards-$n.wav"
done

go run make.go "$tmp" recordings
