import time
import neighbours
from model_system import *
from truth_world import said, asked, candidate, vector
s=System()
t=time.time()
for n in range(1,30):
    s.say(said(n, candidate("city", ['"深圳"','"Berlin"'][n%2], vectors=(vector(1,n,0,0),)), candidate("likes", f'"{n}"')))
s.run(s.drain())
print(time.time()-t)
print(len(s.pool.tables.memories), {k: len(d.held(s.live(k).generation)) for k,d in s.stores.items()}, s.live("milvus").dead[:2])
from model_laws import *
o=Oracle()
for n in range(3): s.happen(("acme","alice"),"s1",f"你好 {n}")
s.propose(asked(40,"forget",sorted(k[2] for k in s.pool.tables.memories)[3]))
s.run(s.drain())
t=time.time()
s.run(check(s,o,set()))
print("check",time.time()-t)
