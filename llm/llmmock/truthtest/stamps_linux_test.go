package truthtest

// haveStamps says that every arrival has to be the kernel's.
const haveStamps = true
