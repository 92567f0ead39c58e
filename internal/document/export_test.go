package document

// Corpus is for tests of other packages' folders.
var Corpus = corpus
