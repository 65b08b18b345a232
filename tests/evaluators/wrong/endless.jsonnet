local f(x) = 1 + f(x + 1);
[f(0)]
