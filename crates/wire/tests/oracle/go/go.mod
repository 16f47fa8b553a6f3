module catena/oracle

go 1.19

require github.com/wmnsk/go-pfcp v0.0.19
