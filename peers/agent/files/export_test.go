package files

// OfficeText reads at most so many bytes of the parts of a document.
var OfficeText = officeText
