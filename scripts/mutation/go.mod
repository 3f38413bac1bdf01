module hubbub/scripts/mutation

go 1.26.0
