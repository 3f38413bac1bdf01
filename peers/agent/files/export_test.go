package files

// OfficeText reads a limited number of bytes of the parts of a document.
var OfficeText = officeText
