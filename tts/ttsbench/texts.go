package ttsbench

// A Text is something to be spoken.
type Text struct {
	ID, Language, Text string
}

// Texts returns what is spoken in a language: answers of a voice agent, from a
// word to three sentences. There are none in languages other than en and zh.
func Texts(language string) []Text {
	all := map[string][]Text{
		"en": {
			{ID: "en-word", Text: "Certainly."},
			{ID: "en-short", Text: "One moment, please."},
			{ID: "en-clause", Text: "I have found your booking,"},
			{ID: "en-sentence", Text: "Your table for four is reserved on Friday at seven in the evening."},
			{ID: "en-question", Text: "Would you like me to send the confirmation to your phone?"},
			{ID: "en-numbers", Text: "The invoice number is 4 0 7 1, and the amount due is 86 dollars and 50 cents."},
			{ID: "en-two", Text: "The train leaves from platform nine. Please be there ten minutes earlier, since the doors close early."},
			{ID: "en-long", Text: "I am sorry that the parcel has not arrived. I have asked the carrier where it is, and they will call you tomorrow morning. If it is lost, we send you another one free of charge."},
		},
		"zh": {
			{ID: "zh-word", Text: "好的。"},
			{ID: "zh-short", Text: "请稍等一下。"},
			{ID: "zh-clause", Text: "我已经查到您的订单，"},
			{ID: "zh-sentence", Text: "您预订的四人桌是本周五晚上七点。"},
			{ID: "zh-question", Text: "需要我把确认短信发到您的手机上吗？"},
			{ID: "zh-numbers", Text: "您的账单编号是四零七一，应付金额是八十六元五角。"},
			{ID: "zh-two", Text: "列车从九号站台发车。请您提前十分钟到达，因为车门会提早关闭。"},
			{ID: "zh-long", Text: "很抱歉您的包裹还没有送到。我已经向快递公司查询，他们明天上午会给您打电话。如果包裹丢失，我们会免费为您补寄一份。"},
		},
	}[language]
	for i := range all {
		all[i].Language = language
	}
	return all
}
