package vswitch_test
import ("testing";"time";"os";"strconv";"context"
"github.com/sonic-mux/terraform-provider-mux/agent/internal/vswitch"
"github.com/sonic-mux/terraform-provider-mux/agent/internal/cable"
"github.com/sonic-mux/terraform-provider-mux/internal/ovstest")
type nilConn struct{}
func (nilConn) Flows(context.Context,string)([]cable.Flow,error){return nil,nil}
func (nilConn) Apply([]cable.Update,func(int,error)){}
func TestZZ(t *testing.T){ n,_:=strconv.Atoi(os.Getenv("N")); o:=ovstest.Start(t); t0:=time.Now(); ms:=o.AddMuxes(vmSet,n); t.Log("add",time.Since(t0))
 s:=newSwitch(t,o,func(c *vswitch.Config){c.Conn=nilConn{}})
 for range 5 { t0=time.Now(); discover(t,s); t.Log("discover",time.Since(t0)) }
 s=newSwitch(t,o,keepFailMode,func(c *vswitch.Config){c.Conn=nilConn{}})
 for range 5 { t0=time.Now(); read(t,s,ms[n/2].Bridge); t.Log("read",time.Since(t0)) }
}
