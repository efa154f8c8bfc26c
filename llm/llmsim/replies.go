package llmsim

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// english and chinese are the answers of a voice agent: one to three sentences,
// some with a very short opening, which decides how soon a pipeline that speaks
// sentence by sentence can begin.
var english = []string{
	"Sure! I can help you with that. Could you tell me your order number, please?",
	"Your table for four is booked for seven o'clock on Friday evening.",
	"Let me check. The next train to the airport leaves at twenty past nine from platform three.",
	"Okay. I've moved your appointment to Thursday at ten, and you'll get a message to confirm it.",
	"I'm sorry to hear that the parcel hasn't arrived. It left our warehouse on Monday, so it should be with you by tomorrow. Would you like me to send you the tracking link?",
	"Yes, we are open on Sundays from ten in the morning until four in the afternoon.",
	"Good question. The basic plan includes two lines and ten gigabytes of data, and you can change it every month.",
	"Right. Please hold the button on the back for five seconds until the light turns blue.",
	"Your balance is one hundred and forty-two dollars, and the next payment is due on the third of May.",
	"Of course! What time would suit you best?",
	"There will be light rain this afternoon, with a high of eighteen degrees. Take an umbrella if you go out before six.",
	"Thanks for waiting. I found two rooms for those nights: one with a view of the garden, and a larger one on the top floor.",
	"No problem. Your subscription ends at the end of this month, and nothing more will be charged.",
	"It takes about twenty minutes to walk from the station, or five minutes by taxi.",
	"Done! The lights in the kitchen are off now.",
	"If the screen stays dark after that, please unplug the device, wait for half a minute, and plug it in again. I'll stay on the line.",
}

var chinese = []string{
	"好的！我来帮您查一下，请告诉我您的订单号。",
	"您预订的四人桌是周五晚上七点，靠窗的位置。",
	"请稍等。下一班去机场的列车九点二十分从三号站台发车。",
	"没问题，我已经把您的预约改到周四上午十点，稍后会给您发一条确认短信。",
	"很抱歉，您的包裹还没有送到。它周一已经从仓库发出，预计明天可以送达。需要我把物流链接发给您吗？",
	"是的，我们星期天上午十点到下午四点营业。",
	"可以。基础套餐包含两条线路和十个吉字节的流量，每个月都能更换。",
	"请按住背面的按钮五秒钟，直到指示灯变成蓝色。",
	"您的余额是一百四十二元，下一次还款日是五月三号。",
	"当然！您觉得什么时间比较方便？",
	"今天下午有小雨，最高气温十八度。如果六点以前出门，记得带伞。",
	"让您久等了。那几天还有两个房间：一间可以看到花园，另一间在顶楼，面积更大一些。",
	"明白了。您的会员这个月底到期，之后不会再扣费。",
	"从车站走过去大约二十分钟，打车只要五分钟。",
	"好了，厨房的灯已经关上了。",
	"如果屏幕还是不亮，请先拔掉电源，等半分钟再插上。我会一直在线。",
}

// thinking is what reasoning says, over and over.
const thinking = "The user wants to know something about an order. I should look at what was said before, and answer in one or two short sentences. "

// A reply is a text and where its tokens end in it.
type reply struct {
	text string
	ends []int
}

func replies(texts []string) []reply {
	var all []reply
	for _, t := range texts {
		all = append(all, tokenize(t))
	}
	return all
}

// wordPart is how many letters of a word go into one token. With it the English
// replies have 4.1 characters a token, and the Chinese ones 1.4, punctuation
// counted (DeepSeek gives 0.3 tokens for an English character and 0.6 for a
// Chinese one: api-docs.deepseek.com, token usage).
const wordPart = 6

// tokenize splits text into pieces as a tokenizer would: a word with the space
// before it, in parts of up to 6 letters; Chinese characters by two and one in
// turn; each punctuation mark by itself.
func tokenize(text string) reply {
	r := reply{text: text}
	letters, han, pair := 0, 0, true // in the open token; whether a pair of Han comes next
	end := func(at int) {
		if at > 0 && (len(r.ends) == 0 || r.ends[len(r.ends)-1] < at) {
			r.ends = append(r.ends, at)
		}
		letters, han = 0, 0
	}
	space := false // the open token is only a space so far
	for i, c := range text {
		switch {
		case unicode.Is(unicode.Han, c):
			if letters > 0 {
				end(i)
			}
			if han == 2 || han == 1 && !pair {
				end(i)
				pair = !pair
			}
			han++
			space = false
		case unicode.IsLetter(c), unicode.IsDigit(c), c == '\'':
			if han > 0 || letters == wordPart {
				end(i)
			}
			letters++
			space = false
		default:
			if !space {
				end(i)
			}
			space = unicode.IsSpace(c)
			if !space {
				end(i + utf8.RuneLen(c))
			}
		}
	}
	end(len(text))
	return r
}

// first returns r with only its n first tokens.
func (r reply) first(n int) reply {
	if n >= len(r.ends) {
		return r
	}
	if n == 0 {
		return reply{}
	}
	return reply{r.text[:r.ends[n-1]], r.ends[:n]}
}

// estimate returns about how many tokens text has: 0.3 for each character, and
// 0.6 for each Chinese one (DeepSeek, as above).
func estimate(text string) int {
	tenths := 0
	for _, c := range text {
		if unicode.Is(unicode.Han, c) {
			tenths += 6
		} else {
			tenths += 3
		}
	}
	return (tenths + 9) / 10
}

func isChinese(language string) bool { return strings.HasPrefix(language, "zh") }
