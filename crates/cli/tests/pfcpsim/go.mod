module pfcpsim.oracle

go 1.25.0

require github.com/omec-project/pfcpsim v1.4.3
